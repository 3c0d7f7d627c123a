#include "hone/model/moe.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::model {
namespace {

bool has_adapter(const ExpertWeights& weights, const std::string& name) {
  return std::ranges::find(weights.adapters, name, &ops::LoraWeights::adapter) != weights.adapters.end();
}

// The active adapters, and the one of this name.
std::vector<ops::LoraWeights> adapters_with(const ExpertWeights& weights, const std::string& name) {
  std::vector<ops::LoraWeights> found;
  for (const auto& adapter : weights.adapters)
    if (adapter.active || adapter.adapter == name) found.emplace_back(adapter).active = true;
  return found;
}

// Consecutive rows with the adapter that changes their experts, "" where none does. Empty if none does anywhere.
ops::LoraMapping expert_rows(const SparseMoe& moe, const ops::LoraMapping* mapping, int64_t rows) {
  ops::LoraMapping parts;
  int64_t done = 0;
  if (!mapping) return parts;
  for (const auto& range : *mapping) {
    if (!has_adapter(moe.gate_up, range.adapter) && !has_adapter(moe.down, range.adapter)) continue;
    if (done < range.begin) parts.push_back({"", done, range.begin});
    parts.push_back(range);
    done = range.end;
  }
  if (!parts.empty() && done < rows) parts.push_back({"", done, rows});
  return parts;
}

// Rows of several adapters, sorted by expert, would no longer be ranges, so each range is computed alone.
Tensor local_experts(const SparseMoe& moe, const Tensor& x_th, const ops::TopKRouting& choice, const ops::LoraMapping& parts) {
  const auto experts = moe.is_eager ? ops::expert_mlp_plain : ops::expert_mlp;
  const auto gate_up = moe.gate_up.product(), down = moe.down.product();
  if (parts.empty()) return experts(x_th, choice, gate_up, down);
  TensorList outputs;
  for (const auto& [adapter, begin, end] : parts) {
    const ops::TopKRouting own{choice.experts_tk.slice(0, begin, end), choice.weights_tk.slice(0, begin, end), choice.drops};
    const auto on_gate_up = adapters_with(moe.gate_up, adapter), on_down = adapters_with(moe.down, adapter);
    outputs.push_back(experts(x_th.slice(0, begin, end), own, {gate_up.weight, on_gate_up, gate_up.quantized},
                              {down.weight, on_down, down.quantized}));
  }
  return at::cat(outputs);
}

}  // namespace

void ExpertWeights::quantize(int bits) {
  for (int64_t expert = 0; expert < weight.size(0); ++expert)
    quantized.push_back(ops::quantize_weight(weight.select(0, expert), bits));
  weight = weight.to(at::kMeta);
}

Tensor SparseMoe::route(const Tensor& x_th, const LinearContext& mode) const {
  if (!routes_in_float32 || x_th.scalar_type() == at::kFloat) return router(x_th, mode);
  const auto x32_th = x_th.to(at::kFloat), weight = router.weight.to(at::kFloat);
  auto logits_te = ops::lora_linear(x32_th, weight, router.bias, router.adapters, mode.training);
  if (mode.rows) ops::add_multi_lora(logits_te, x32_th, weight, router.bias, router.adapters, *mode.rows);
  return logits_te;
}

Tensor SparseMoe::operator()(const Tensor& input_th, const LinearContext& mode, TensorList* router_logits, bool drops,
                             const Tensor& routed_tk, ops::ExpertDispatcher* dispatcher) const {
  auto x_th = mode.training && jitter > 0 ? input_th * at::empty_like(input_th).uniform_(1 - jitter, 1 + jitter) : input_th;
  auto logits_te = route(x_th, mode);
  if (router_logits) router_logits->push_back(logits_te);
  auto choice =
      routed_tk.defined() ? ops::route_to(logits_te, routed_tk, normalized) : ops::route_top_k(logits_te, per_token, normalized);
  if (capacity && drops) choice = ops::drop_tokens(choice, logits_te.size(1), *capacity);
  const auto parts = expert_rows(*this, mode.rows, x_th.size(0));
  HONE_CHECK(!dispatcher || parts.empty());  // its processes do not receive adapters of rows
  if (dispatcher)
    return ops::dispatched_expert_mlp(x_th, choice, logits_te.size(1), gate_up.product(), down.product(), *dispatcher);
  const auto home = gate_up.weight.device();
  const bool is_here = home == x_th.device() || home.is_meta();
  const auto rows_th = is_here ? x_th : x_th.to(home);
  if (!is_here) choice = {choice.experts_tk.to(home), choice.weights_tk.to(home), choice.drops};
  const auto y_th = local_experts(*this, rows_th, choice, parts);
  return is_here ? y_th : y_th.to(x_th.device());
}

}  // namespace hone::model
