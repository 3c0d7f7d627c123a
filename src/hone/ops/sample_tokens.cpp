#include "hone/ops/sample_tokens.h"

#include <algorithm>
#include <limits>

#include "hone/ops/cuda/sample_tokens.h"
#include "hone/ops/npu/sample_tokens.h"

namespace hone::ops {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

template <class T>
Tensor on_device_of(const std::vector<T>& values, const Tensor& other) {
  return at::tensor(values, at::TensorOptions(c10::CppTypeToScalarType<T>::value)).to(other.device(), /*non_blocking=*/true);
}

}  // namespace

bool can_sample_on_device(const Tensor& logits_rv, double temperature) {
  return temperature <= 0 || cuda::supports_sampling(logits_rv) || npu::supports_sampling(logits_rv);
}

bool can_filter_on(const Tensor& logits_rv) { return npu::supports_sampling(logits_rv) || cuda::supports_sampling(logits_rv); }

Tensor sample_tokens(const Tensor& logits_rv, const SamplingTensors& draws) {
  if (cuda::supports_sampling(logits_rv)) return cuda::sample_tokens(top_k_top_p_logits(logits_rv, draws), draws);
  return npu::supports_sampling(logits_rv) ? npu::sample_tokens(logits_rv, draws) : logits_rv.argmax(1);
}

Tensor top_k_top_p_logits(const Tensor& logits_rv, const SamplingTensors& draws) {
  bool all = std::ranges::all_of(draws.top_k, [](int32_t k) { return k == 0; }) &&
             std::ranges::all_of(draws.top_p, [](float p) { return p >= 1; });
  if (all) return logits_rv;
  std::vector<float> temperatures;
  for (float t : draws.temperatures) temperatures.push_back(t > 0 ? t : 1);
  auto warm = logits_rv.to(at::kFloat).div(on_device_of(temperatures, logits_rv).unsqueeze(1));
  auto left = top_k_top_p_plain(warm, on_device_of(draws.top_k, warm), on_device_of(draws.top_p, warm));
  return logits_rv.masked_fill(left.isneginf(), kNever);
}

Tensor top_k_top_p_plain(const Tensor& logits_rv, const Tensor& k, const Tensor& p) {
  auto [sorted, order] = logits_rv.sort(1, /*descending=*/true);
  auto rank = at::arange(logits_rv.size(1), k.options()).unsqueeze(0), limit = k.unsqueeze(1);
  auto beyond = (rank >= limit).logical_and(limit > 0);
  auto probabilities = sorted.masked_fill(beyond, kNever).softmax(1);
  auto before = probabilities.cumsum(1) - probabilities;
  auto hidden = beyond.logical_or((before >= p.unsqueeze(1)).logical_and(rank > 0));
  return at::empty_like(sorted).scatter_(1, order, sorted.masked_fill(hidden, kNever));
}

}  // namespace hone::ops
