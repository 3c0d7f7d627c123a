// Counter-based dropout: pack i of a tensor uses Philox's output for the counter (i, offset) and the key `seed`.
#pragma once
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {

// Philox 4x32 of seven rounds (Salmon et al. 2011), which passes the same tests as ten.
__device__ inline uint4 philox(uint64_t seed, uint64_t index, uint64_t offset) {
  uint4 counter{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(offset),
                static_cast<uint32_t>(offset >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const uint64_t first = static_cast<uint64_t>(0xD2511F53u) * counter.x,
                   second = static_cast<uint64_t>(0xCD9E8D57u) * counter.z;
    counter = {static_cast<uint32_t>(second >> 32) ^ counter.y ^ key0, static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter.w ^ key1, static_cast<uint32_t>(first)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

struct DropRates {
  uint32_t threshold;  // sixteen bits below this drop the element
  float factor;
};

inline DropRates rates_of(double dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout * 65536.0));
  return {threshold, static_cast<float>(65536.0 / (65536.0 - threshold))};
}

// The factor of each of the kCount elements of a pack.
template <int kCount>
struct DropFactors {
  float values[kCount];
};
template <int kCount>
__device__ inline DropFactors<kCount> drop_factors(uint64_t seed, uint64_t index, uint64_t offset, DropRates rates) {
  const uint4 bits = philox(seed, index, offset);
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  DropFactors<kCount> found;
#pragma unroll
  for (int j = 0; j < kCount; ++j)
    found.values[j] = ((words[j / 2] >> (16 * (j % 2))) & 0xffffu) < rates.threshold ? 0.0f : rates.factor;
  return found;
}

}  // namespace hone::ops::cuda
