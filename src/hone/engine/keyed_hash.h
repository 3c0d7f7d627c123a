// SipHash-2-4, a keyed hash: clients cannot construct collisions in the shared prefix cache.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace hone::engine {

struct HashKey {
  uint64_t low, high;
};

inline uint64_t keyed_hash(HashKey key, std::span<const std::byte> bytes) {
  uint64_t a = key.low ^ 0x736f6d6570736575ull, b = key.high ^ 0x646f72616e646f6dull, c = key.low ^ 0x6c7967656e657261ull,
           d = key.high ^ 0x7465646279746573ull;
  auto round = [&] {
    a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
    c += d, d = std::rotl(d, 16) ^ c;
    a += d, d = std::rotl(d, 21) ^ a;
    c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
  };
  auto absorb = [&](uint64_t word) { d ^= word, round(), round(), a ^= word; };
  size_t whole = bytes.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    absorb(word);
  }
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (size_t i = whole; i < bytes.size(); ++i) last |= static_cast<uint64_t>(bytes[i]) << (8 * (i - whole));
  absorb(last);
  c ^= 0xff;
  for (int i = 0; i < 4; ++i) round();
  return a ^ b ^ c ^ d;
}

}  // namespace hone::engine
