#include "hone/model/moe.h"

namespace hone::model {
void ExpertWeights::quantize(int bits) {
  for (int64_t expert = 0; expert < weight.size(0); ++expert)
    quantized.push_back(ops::quantize_weight(weight.select(0, expert), bits));
  weight = weight.to(at::kMeta);
}

Tensor SparseMoe::route(const Tensor& x_th, const LinearContext& mode) const {
  if (!routes_in_float32 || x_th.scalar_type() == at::kFloat) return router(x_th, mode);
  return ops::lora_linear(x_th.to(at::kFloat), router.weight.to(at::kFloat), router.bias, router.adapters, mode.training);
}

Tensor SparseMoe::operator()(const Tensor& input_th, const LinearContext& mode, TensorList* router_logits, bool drops,
                             ops::ExpertDispatcher* dispatcher) const {
  auto x_th = mode.training && jitter > 0 ? input_th * at::empty_like(input_th).uniform_(1 - jitter, 1 + jitter) : input_th;
  auto logits_te = route(x_th, mode);
  if (router_logits) router_logits->push_back(logits_te);
  auto choice = ops::route_top_k(logits_te, per_token, normalized);
  if (capacity && drops) choice = ops::drop_tokens(choice, logits_te.size(1), *capacity);
  if (dispatcher)
    return ops::dispatched_expert_mlp(x_th, choice, logits_te.size(1), gate_up.product(), down.product(), *dispatcher);
  const auto experts = is_eager ? ops::expert_mlp_plain : ops::expert_mlp;
  const auto home = gate_up.weight.device();
  if (home == x_th.device() || home.is_meta()) return experts(x_th, choice, gate_up.product(), down.product());
  const ops::TopKRouting moved{choice.experts_tk.to(home), choice.weights_tk.to(home), choice.drops};
  return experts(x_th.to(home), moved, gate_up.product(), down.product()).to(x_th.device());
}

}  // namespace hone::model
