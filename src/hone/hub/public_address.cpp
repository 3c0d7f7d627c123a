#include "hone/hub/public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace hone::hub {
namespace {

struct Ipv4Range {
  uint32_t first;
  int bits;
};
// RFC 6890, and the metadata services of clouds: 169.254.169.254, 100.100.100.200.
constexpr std::array<Ipv4Range, 14> kReserved{{{0x00000000, 8},    // this network
                                               {0x0A000000, 8},    // private
                                               {0x64400000, 10},   // shared by providers
                                               {0x7F000000, 8},    // loopback
                                               {0xA9FE0000, 16},   // link-local
                                               {0xAC100000, 12},   // private
                                               {0xC0000000, 24},   // protocol assignments
                                               {0xC0000200, 24},   // documentation
                                               {0xC0A80000, 16},   // private
                                               {0xC6120000, 15},   // benchmarks
                                               {0xC6336400, 24},   // documentation
                                               {0xCB007100, 24},   // documentation
                                               {0xE0000000, 4},    // multicast
                                               {0xF0000000, 4}}};  // reserved, broadcast

bool is_public(uint32_t address) {
  return std::ranges::none_of(kReserved,
                              [&](const Ipv4Range& range) { return (address ^ range.first) >> (32 - range.bits) == 0; });
}

uint32_t embedded(std::span<const uint8_t> bytes) {
  uint32_t address = 0;
  for (size_t i = 0; i < 4; ++i) address = address << 8 | bytes[i];
  return address;
}

bool is_public(std::span<const uint8_t, 16> bytes) {
  auto begins = [&](std::initializer_list<uint8_t> prefix) { return std::equal(prefix.begin(), prefix.end(), bytes.begin()); };
  if (begins({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF})) return is_public(embedded(bytes.subspan(12)));       // an IPv4 address
  if (begins({0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0})) return is_public(embedded(bytes.subspan(12)));    // NAT64
  if (begins({0x20, 0x02})) return is_public(embedded(bytes.subspan(2)));                                      // 6to4
  return (bytes[0] & 0xE0) == 0x20 && !begins({0x20, 0x01, 0x00, 0x00}) && !begins({0x20, 0x01, 0x0D, 0xB8});  // global unicast
}

}  // namespace

[[gnu::noinline]] bool is_public_address(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    return is_public(ntohl(v4.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof v6);
  return is_public(std::span<const uint8_t, 16>(v6.sin6_addr.s6_addr));
}

}  // namespace hone::hub
