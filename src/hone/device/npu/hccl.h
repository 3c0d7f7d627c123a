// The user's settings of HCCL in the environment, checked before it joins processes: its own errors come
// minutes later.
#pragma once
#include <string>

namespace hone::device::npu {

// Throws UserError naming the variable, what it holds and what it may hold. `processes` is the size of the run.
void check_hccl_environment(int processes);

// Whether HCCL_SOCKET_IFNAME's pattern takes an interface: "eth" prefix, "=eth0" that one, "^eth" all but these, "^=eth0" all but
// that one.
bool interface_matches(const std::string& pattern, const std::string& interface);

// How long HCCL waits here, for messages about time-outs: "ranks wait 120 s for each other (HCCL_CONNECT_TIMEOUT), …".
std::string describe_hccl_timeouts();

}  // namespace hone::device::npu
