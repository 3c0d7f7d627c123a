// A hash of a name, the same on every platform and in every release: for seeds shared by checkpoints and runs.
#pragma once
#include <cstdint>
#include <string_view>

namespace hone {

inline uint64_t stable_hash(std::string_view text, uint64_t seed = 0) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325ull ^ seed;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

}  // namespace hone
