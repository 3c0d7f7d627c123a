// The native command that resolves to the same configuration as a parsed one.
#pragma once
#include "hone/cli/parsing/command_line.h"

namespace hone::cli {

// Whether the command does something else, or says so, without this setting. A default does not where what it belongs to is off.
bool matters(const Setting& setting, const Options& options);
std::string native_command(const Invocation& invocation, const Options& options);

}  // namespace hone::cli
