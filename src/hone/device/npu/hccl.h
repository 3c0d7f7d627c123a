// Checks the user's HCCL environment variables before processes connect: HCCL's own errors come minutes later.
#pragma once
#include <string>

namespace hone::device::npu {

// Throws UserError with the variable, its value and the values that it may have. `processes` is the size of the run.
void check_hccl_environment(int processes);

// Whether HCCL_SOCKET_IFNAME's pattern matches an interface: "eth" prefix, "=eth0" exactly, "^eth" all but the prefix, "^=eth0"
// all but that one.
bool interface_matches(const std::string& pattern, const std::string& interface);

// HCCL's timeouts, for error messages: "ranks wait 120 s for each other (HCCL_CONNECT_TIMEOUT), …".
std::string describe_hccl_timeouts();

}  // namespace hone::device::npu
