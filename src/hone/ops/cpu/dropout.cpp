#include "hone/ops/cpu/dropout.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>

#include "hone/device/tensor.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {
namespace {

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
  parallel_pieces((total + kGrain - 1) / kGrain, 1, [&](int64_t first, int64_t last) {
    int64_t begin = first * kGrain, end = std::min(last * kGrain, total);
    dropout_span(values + begin, static_cast<uint64_t>(begin), end - begin, seed, limit, static_cast<float>(1 / kept));
  });
}

Tensor masked(const Tensor& x, const Tensor& mask) {
  constexpr int64_t kGrain = 1 << 13;
  const auto from = x.contiguous();
  auto y = at::empty(x.sizes(), mask.options());
  const auto* kept = mask.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<float>();
  with_type(x.scalar_type(), [&](auto type) {
    const auto* values = from.const_data_ptr<decltype(type)>();
    parallel_pieces(x.numel(), kGrain,
                    [&](int64_t begin, int64_t end) { masked_span(values + begin, kept + begin, to + begin, end - begin); });
  });
  return y;
}

}  // namespace hone::ops::cpu
