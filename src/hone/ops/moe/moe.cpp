#include "hone/ops/moe/moe.h"

#include "hone/device/autograd.h"
#include "hone/ops/cuda/moe.h"
#include "hone/ops/cuda/moe_routing.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/moe/moe_permute.h"
#include "hone/ops/swiglu.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor a_by_expert(const LoraWeights& adapter, int64_t experts) { return adapter.a.view({experts, -1, adapter.a.size(1)}); }
Tensor b_by_expert(const LoraWeights& adapter, int64_t experts) {
  return adapter.b.view({adapter.b.size(0), -1, experts}).permute({2, 0, 1});
}

// The product with expert `e` alone.
Tensor by_one(const Tensor& rows, const ExpertLinear& product, int64_t e) {
  auto y = product.quantized ? quantized_linear(rows, *(*product.quantized)[static_cast<size_t>(e)], {})
                             : at::linear(rows, product.weight[e]);
  const int64_t experts = product.weight.size(0);
  for (const auto& adapter : product.adapters) {
    if (!adapter.active) continue;
    auto low = at::linear(rows.to(adapter.a.scalar_type()), a_by_expert(adapter, experts)[e]);
    y = y + (at::linear(low, b_by_expert(adapter, experts)[e]) * adapter.scale).to(y.scalar_type());
  }
  return y;
}

Tensor by_quantized(const Tensor& rows, const QuantizedExperts& experts, const Tensor& counts) {
  TensorList parts;
  int64_t begin = 0;
  const auto* count = counts.const_data_ptr<int64_t>();
  for (size_t e = 0; e < experts.size(); begin += count[e++])
    if (count[e] > 0) parts.push_back(quantized_linear(rows.narrow(0, begin, count[e]), *experts[e], {}));
  return at::cat(parts);
}

Tensor by_all(const Tensor& rows, const ExpertLinear& product, const Tensor& counts) {
  auto y = product.quantized ? by_quantized(rows, *product.quantized, counts)
                             : grouped_matmul(rows, product.weight.transpose(1, 2), counts);
  const int64_t experts = product.weight.size(0);
  for (const auto& adapter : product.adapters) {
    if (!adapter.active) continue;
    // A GPU multiplies all groups at once in the rows' dtype, as PEFT does; one by one they would cost a launch each.
    const auto type = rows.is_cuda() ? rows.scalar_type() : adapter.a.scalar_type();
    // The scale multiplies the few numbers of the low rank, not the wide output.
    auto low = grouped_matmul(rows.to(type), a_by_expert(adapter, experts).to(type).transpose(1, 2), counts) * adapter.scale;
    y = y + grouped_matmul(low, b_by_expert(adapter, experts).to(type).contiguous().transpose(1, 2), counts).to(y.scalar_type());
  }
  return y;
}

// For rows that are sorted by expert.
Tensor mlp_of_rows(const Tensor& rows, const Tensor& counts, const ExpertLinear& gate_up, const ExpertLinear& down) {
  return by_all(swiglu_halves(by_all(rows, gate_up, counts)), down, counts);
}

// The routing weights multiply SwiGLU's output: the experts' outputs are then neither read again nor kept for their gradient.
class WeightedSwiglu : public torch::autograd::Function<WeightedSwiglu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& both_rw, const Tensor& weights_tk, const Tensor& order_r) {
    ctx->save_for_backward({both_rw, weights_tk, order_r});
    return cuda::weighted_swiglu(both_rw, weights_tk, order_r);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    auto found = cuda::weighted_swiglu_backward(grads[0].contiguous(), saved[0], saved[1], saved[2]);
    return {found.both_rw, found.weights_tk, Tensor()};
  }
};

// Outputs: weights, experts.
class CudaRouteTopK : public torch::autograd::Function<CudaRouteTopK> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& logits_te, int64_t per_token, bool normalized) {
    auto found = cuda::route_top_k(logits_te, per_token, normalized);
    ctx->save_for_backward({logits_te, found.experts_tk, found.weights_tk, found.logsumexp_t});
    ctx->saved_data["normalized"] = normalized;
    ctx->mark_non_differentiable({found.experts_tk});
    return {found.weights_tk, found.experts_tk};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    return {cuda::route_top_k_backward(grads[0].contiguous(), saved[0], {saved[1], saved[2], saved[3]},
                                       ctx->saved_data["normalized"].toBool()),
            Tensor(), Tensor()};
  }
};

// The rows of the experts, sorted by expert. Dropped rows follow and return as zeros.
class TakenRows {
 public:
  TakenRows(const Tensor& x_th, const TopKRouting& choice, int64_t experts)
      : sent_(moe_permute(x_th, choice.experts_tk, experts + (choice.drops ? 1 : 0))),
        counts_e_(sent_.counts_e.narrow(0, 0, experts)),
        weights_tk_(choice.weights_tk),
        rows_rh_(choice.drops ? sent_.rows_rh.narrow(0, 0, counts_e_.sum().item<int64_t>()) : sent_.rows_rh) {}

  const Tensor& rows_rh() const { return rows_rh_; }
  const Tensor& counts_e() const { return counts_e_; }
  Tensor back(const Tensor& made_rh) const { return moe_unpermute(with_dropped(made_rh), sent_.permutation_r, weights_tk_); }

  bool supports_weighted_gate(const Tensor& both_rw) const {
    return fused_operators().swiglu && sent_.order_r.defined() && cuda::supports_weighted_swiglu(both_rw) &&
           weights_tk_.scalar_type() == at::kFloat && weights_tk_.is_contiguous();
  }
  Tensor weighted_gate(const Tensor& both_rw) const { return WeightedSwiglu::apply(both_rw, weights_tk_, sent_.order_r); }
  Tensor weighted_back(const Tensor& made_rh) const {
    return moe_unpermute_weighted(with_dropped(made_rh), sent_.permutation_r, weights_tk_.size(1));
  }

 private:
  Tensor with_dropped(const Tensor& made_rh) const {
    const int64_t dropped = sent_.rows_rh.size(0) - made_rh.size(0);
    return dropped > 0 ? at::constant_pad_nd(made_rh, {0, 0, 0, dropped}) : made_rh;
  }

  PermutedTokens sent_;
  Tensor counts_e_;
  const Tensor& weights_tk_;
  Tensor rows_rh_;
};

}  // namespace

TopKRouting route_top_k(const Tensor& logits_te, int64_t per_token, bool normalized) {
  if (cuda::supports_routing(logits_te, per_token)) {
    auto found = CudaRouteTopK::apply(logits_te, per_token, normalized);
    return {found[1], found[0]};
  }
  auto [weights, experts] = at::softmax(logits_te, -1, at::kFloat).topk(per_token, -1);
  return {experts, normalized ? weights / weights.sum(-1, /*keepdim=*/true) : weights};
}

TopKRouting route_to(const Tensor& logits_te, const Tensor& experts_tk, bool normalized) {
  const auto probabilities_te = at::softmax(logits_te, -1, at::kFloat);
  const auto own_tk = route_top_k(logits_te.detach(), experts_tk.size(1), /*normalized=*/false).experts_tk;
  const auto chosen_tk = at::where(experts_tk < 0, own_tk, experts_tk);
  const auto weights_tk = probabilities_te.gather(-1, chosen_tk);
  return {chosen_tk, normalized ? weights_tk / weights_tk.sum(-1, /*keepdim=*/true) : weights_tk};
}

Tensor routed_experts(const TensorList& router_logits, int64_t per_token) {
  TensorList layers;
  for (const auto& logits_te : router_logits)
    layers.push_back(route_top_k(logits_te.detach(), per_token, /*normalized=*/false).experts_tk.to(router_logits[0].device()));
  return at::stack(layers, 1);
}

Tensor expert_lora_delta(const LoraWeights& adapter, int64_t experts) {
  return at::bmm(b_by_expert(adapter, experts).to(at::kFloat), a_by_expert(adapter, experts).to(at::kFloat)) * adapter.scale;
}

Tensor expert_mlp_plain(const Tensor& x_th, const TopKRouting& choice, const ExpertLinear& gate_up, const ExpertLinear& down) {
  auto y_th = at::zeros_like(x_th);
  for (int64_t e = 0; e < gate_up.weight.size(0); ++e) {
    auto chosen = (choice.experts_tk == e).nonzero();
    if (chosen.size(0) == 0) continue;
    auto token = chosen.select(1, 0), place = chosen.select(1, 1);
    auto both = by_one(x_th.index_select(0, token), gate_up, e).chunk(2, 1);
    auto rows = by_one(swiglu_plain(both[0], both[1]), down, e);
    auto weights = choice.weights_tk.index({token, place}).unsqueeze(1);
    y_th = y_th.index_add(0, token, (rows * weights).to(y_th.scalar_type()));
  }
  return y_th;
}

Tensor expert_mlp(const Tensor& x_th, const TopKRouting& choice, const ExpertLinear& gate_up, const ExpertLinear& down) {
  const TakenRows taken(x_th, choice, gate_up.weight.size(0));
  const auto both_rw = by_all(taken.rows_rh(), gate_up, taken.counts_e());
  if (taken.supports_weighted_gate(both_rw))
    return taken.weighted_back(by_all(taken.weighted_gate(both_rw), down, taken.counts_e()));
  return taken.back(by_all(swiglu_halves(both_rw), down, taken.counts_e()));
}

Tensor dispatched_expert_mlp(const Tensor& x_th, const TopKRouting& choice, int64_t all_experts, const ExpertLinear& gate_up,
                             const ExpertLinear& down, ExpertDispatcher& dispatcher) {
  const TakenRows taken(x_th, choice, all_experts);
  auto route = dispatcher.dispatch(taken.rows_rh(), taken.counts_e());
  return taken.back(route->combine(mlp_of_rows(route->rows_rh(), route->counts_e(), gate_up, down)));
}

}  // namespace hone::ops
