// A random permutation of [0, size) without a table: any element in constant time, so that a resume needs no replay.
#pragma once
#include <bit>
#include <cstdint>

#include "hone/base/rng.h"

namespace hone::data {

class Permutation {
 public:
  Permutation(uint64_t size, uint64_t seed, uint64_t stream)
      : size_(size), half_bits_((std::bit_width(size > 1 ? size - 1 : 1) + 1) / 2) {
    Rng rng(seed, stream);
    for (auto& key : keys_) key = rng.next();
  }

  // A Feistel network permutes the next power of four; values outside the range are permuted again until one falls inside.
  uint64_t operator()(uint64_t index) const {
    do index = scramble(index);
    while (index >= size_);
    return index;
  }

 private:
  uint64_t scramble(uint64_t value) const {
    uint64_t mask = (uint64_t{1} << half_bits_) - 1, left = value >> half_bits_, right = value & mask;
    for (uint64_t key : keys_) {
      uint64_t mixed = (right + key) * 0x9E3779B97F4A7C15ull;
      mixed ^= mixed >> 29;
      mixed *= 0xBF58476D1CE4E5B9ull;
      uint64_t next = left ^ ((mixed ^ (mixed >> 32)) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t size_;
  int half_bits_;
  uint64_t keys_[6];
};

}  // namespace hone::data
