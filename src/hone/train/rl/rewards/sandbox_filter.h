// Which system calls a program in the sandbox may make.
#pragma once
#include <string>

namespace hone::train::rl {

// A filter for seccomp as the kernel reads it: no new processes (threads may begin), no sockets, nothing that changes namespaces
// or looks into other processes.
std::string sandbox_filter();

}  // namespace hone::train::rl
