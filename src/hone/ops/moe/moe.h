// Mixture of experts instead of an MLP: routing, and the experts' computation.
#pragma once
#include "hone/ops/linear/lora_linear.h"
#include "hone/ops/moe/expert_dispatcher.h"
#include "hone/ops/quantization/quantized_linear.h"

namespace hone::ops {

struct TopKRouting {
  Tensor experts_tk;   // int64 [T, k]
  Tensor weights_tk;   // float32 [T, k]: how much each of them counts
  bool drops = false;  // choices beyond the last expert are dropped
};

// The most probable experts by the router's logits [T, E]; `normalized`: their weights sum to 1.
TopKRouting route_top_k(const Tensor& logits_te, int64_t per_token, bool normalized);

// Router replay: these experts [T, k] instead, with weights by the router's logits; -1: the router's own choice.
TopKRouting route_to(const Tensor& logits_te, const Tensor& experts_tk, bool normalized);

// The experts that several routers choose, by the logits [T, E] of each: int64 [T, routers, k].
Tensor routed_experts(const TensorList& router_logits, int64_t per_token);

using QuantizedExperts = std::vector<std::shared_ptr<const PackedWeight>>;

// One product of every expert. Weight [E, out, in]; adapters as PEFT stacks those of all experts: a [E * r, in], b [out, r * E].
struct ExpertLinear {
  const Tensor& weight;
  const std::vector<LoraWeights>& adapters;
  const QuantizedExperts* quantized = nullptr;  // of inference: computed with instead of the weight, then a shape only
};

// An adapter's change of the weight, [E, out, in].
Tensor expert_lora_delta(const LoraWeights& adapter, int64_t experts);

// down(silu(gate) * up) of each of a token's experts, summed by their weights. Gate and up are one product, gate first. The
// definition: expert by expert, each on the tokens that chose it.
Tensor expert_mlp_plain(const Tensor& x_th, const TopKRouting& choice, const ExpertLinear& gate_up, const ExpertLinear& down);
// Tokens sorted by expert, one product for each expert with tokens.
Tensor expert_mlp(const Tensor& x_th, const TopKRouting& choice, const ExpertLinear& gate_up, const ExpertLinear& down);
// The same if only some of the experts are local.
Tensor dispatched_expert_mlp(const Tensor& x_th, const TopKRouting& choice, int64_t all_experts, const ExpertLinear& gate_up,
                             const ExpertLinear& down, ExpertDispatcher& dispatcher);

}  // namespace hone::ops
