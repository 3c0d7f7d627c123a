#include "hone/ops/npu/sample_tokens.h"

#include "hone/ops/npu/boxed.h"

namespace hone::ops::npu {
namespace {

constexpr int64_t kMostFiltered = 1024;  // the kernel's largest top_k

template <class T>
Tensor on_npu(const std::vector<T>& values, const Tensor& like) {
  return at::tensor(values, at::TensorOptions(c10::CppTypeToScalarType<T>::value)).to(like.device(), /*non_blocking=*/true);
}

// One uniform number per row from its key, as in the host's sampler; below 1 in float32 too.
Tensor uniforms(const std::vector<int64_t>& keys, const Tensor& like) {
  std::vector<float> values;
  for (int64_t key : keys)
    values.push_back(std::min(static_cast<float>(static_cast<uint64_t>(key) >> 11) * 0x1.0p-53f, 1 - 0x1.0p-24f));
  return on_npu(values, like).unsqueeze(1);
}

// The kernel takes top_k for all rows or for none; mixed rows are sorted here.
bool kernel_takes(const SamplingTensors& draws) {
  auto limited = std::ranges::count_if(draws.top_k, [](int32_t k) { return k > 0 && k <= kMostFiltered; });
  auto free = std::ranges::count(draws.top_k, 0);
  return limited == std::ssize(draws.top_k) || free == std::ssize(draws.top_k);
}

}  // namespace

bool supports_sampling(const Tensor& logits_rv) { return supports(logits_rv, "npu_top_k_top_p"); }

Tensor sample_tokens(const Tensor& logits_rv, const SamplingTensors& draws) {
  auto most_likely = logits_rv.argmax(1);
  bool greedy = std::ranges::all_of(draws.temperatures, [](float t) { return t <= 0; });
  if (greedy) return most_likely;
  std::vector<float> temperatures;
  for (float t : draws.temperatures) temperatures.push_back(t > 0 ? t : 1);
  auto logits = logits_rv.to(at::kFloat).div(on_npu(temperatures, logits_rv).unsqueeze(1));
  bool filters = std::ranges::any_of(draws.top_k, [](int32_t k) { return k > 0; }) ||
                 std::ranges::any_of(draws.top_p, [](float p) { return p < 1; });
  if (filters && kernel_takes(draws)) {
    auto k = draws.top_k[0] > 0 ? c10::IValue(on_npu(draws.top_k, logits)) : c10::IValue();
    logits = call("npu_top_k_top_p", {{logits}, {{"p", on_npu(draws.top_p, logits)}, {"k", k}}});
  } else if (filters) {
    logits = top_k_top_p_plain(logits, on_npu(draws.top_k, logits), on_npu(draws.top_p, logits));
  }
  auto sums = logits.softmax(1).cumsum(1);
  // The first token whose cumulative sum exceeds the draw: a token without probability never does.
  auto drawn = (sums <= uniforms(draws.keys, logits) * sums.narrow(1, sums.size(1) - 1, 1)).sum(1);
  return at::where(on_npu(draws.temperatures, logits) > 0, drawn, most_likely);
}

}  // namespace hone::ops::npu
