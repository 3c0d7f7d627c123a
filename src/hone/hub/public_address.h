// Whether an address is public: not of this machine, its network, a cloud's metadata service or a multicast group.
#pragma once
#include <sys/socket.h>

namespace hone::hub {

bool is_public_address(const sockaddr& address);

}  // namespace hone::hub
