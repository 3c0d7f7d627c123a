// The native command that resolves to the same configuration as a parsed one.
#pragma once
#include "hone/cli/command_line.h"

namespace hone::cli {

std::string native_command(const Invocation& invocation, const Options& options);

}  // namespace hone::cli
