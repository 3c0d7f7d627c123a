#include "hone/ops/loss/head_logits.h"

#include "hone/ops/linear/grouped_lora.h"

namespace hone::ops {
namespace {

// Renumbers `rows` relative to `places`.
LoraMapping rows_among(const LoraMapping& rows, const Tensor& places) {
  std::vector<int64_t> bounds;
  for (const auto& range : rows) bounds.insert(bounds.end(), {range.begin, range.end});
  const auto found = at::searchsorted(places.cpu(), at::tensor(bounds, at::kLong));
  const auto* next = found.const_data_ptr<int64_t>();
  LoraMapping among;
  for (const auto& range : rows) {
    among.push_back({range.adapter, next[0], next[1]});
    next += 2;
  }
  return among;
}

}  // namespace

TensorList head_parameters(const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters) {
  TensorList list{weight};
  if (bias.defined()) list.push_back(bias);
  for (const auto& adapter : adapters)
    for (const auto& tensor : {adapter.a, adapter.b, adapter.magnitude})
      if (tensor.defined()) list.push_back(tensor);
  return list;
}

int64_t rows_of_chunk(size_t chunk_bytes, int64_t words, size_t element_size) {
  const size_t row_bytes = static_cast<size_t>(words) * element_size;
  return std::max<int64_t>(16, static_cast<int64_t>(chunk_bytes / row_bytes) / 16 * 16);
}

Tensor head_logits_plain(const Tensor& x, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                         const LoraMapping& adapter_rows, bool training) {
  if (adapter_rows.empty()) return lora_linear_plain(x, weight, bias, adapters, training);
  auto logits = lora_linear_plain(x, weight, bias, {}, training);
  return (logits + grouped_lora_plain(x, adapters, adapter_rows, logits.size(1))).to(logits.scalar_type());
}

Tensor head_logits(const Tensor& x, const Tensor& places, const Tensor& weight, const Tensor& bias,
                   const std::vector<LoraWeights>& adapters, const LoraMapping& adapter_rows, bool training) {
  if (adapter_rows.empty() || adapters.empty()) return lora_linear(x, weight, bias, adapters, training);
  auto logits = lora_linear(x, weight, bias, {}, training);
  return (logits + grouped_lora(x, adapters, rows_among(adapter_rows, places), logits.size(1))).to(logits.scalar_type());
}

}  // namespace hone::ops
