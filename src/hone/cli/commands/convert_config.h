// The native command that resolves to the same configuration as a parsed one.
#pragma once
#include "hone/cli/parsing/command_line.h"

namespace hone::cli {

// Whether the command behaves or logs differently without this setting. A default of a disabled feature does not matter.
bool matters(const Setting& setting, const Options& options);
std::string native_command(const Invocation& invocation, const Options& options);

}  // namespace hone::cli
