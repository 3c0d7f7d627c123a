#include "hone/ops/cpu/dropout.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>

#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

using LaneWord = uint32_t __attribute__((vector_size(64)));

// A mixing step in which every bit of the result depends on every bit of the word.
HONE_INLINE LaneWord mixed(LaneWord word) {
  word = (word ^ (word >> 16)) * 0x7FEB352Du;
  word = (word ^ (word >> 15)) * 0x846CA68Bu;
  return word ^ (word >> 16);
}

// Elements [begin, begin + count) of a mask; `begin` is a multiple of the lane.
HONE_CPU_KERNEL void fill(float* mask, int64_t begin, int64_t count, uint64_t seed, uint32_t limit, float value) {
  const LaneWord numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  auto start = static_cast<uint64_t>(begin);
  auto low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
  for_lanes(count, HONE_LANES(uint64_t number = start + static_cast<uint64_t>(i);
                              auto word = mixed((numbers + static_cast<uint32_t>(number)) ^ low);
                              word = mixed(word ^ (high + static_cast<uint32_t>(number >> 32)));
                              store(mask + i, word < limit ? splat(value) : Lane{}, extent)));
}

uint64_t draw_seed() {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace

void fill_dropout_mask(Tensor& mask, double kept) {
  constexpr int64_t kGrain = 1 << 15;
  uint64_t seed = draw_seed();
  auto limit = static_cast<uint32_t>(std::min(kept * 4294967296.0, 4294967295.0));
  auto* values = mask.mutable_data_ptr<float>();
  int64_t total = mask.numel();
  at::parallel_for(0, (total + kGrain - 1) / kGrain, 1, [&](int64_t first, int64_t last) {
    int64_t begin = first * kGrain, end = std::min(last * kGrain, total);
    fill(values + begin, begin, end - begin, seed, limit, static_cast<float>(1 / kept));
  });
}

}  // namespace hone::ops::cpu
