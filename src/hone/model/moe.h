// Mixture of experts: the router and the experts that replace a block's MLP.
#pragma once
#include "hone/model/layers.h"
#include "hone/ops/moe/expert_capacity.h"

namespace hone::model {

// One product of all experts, stacked.
struct ExpertWeights {
  std::string name;  // "model.layers.0.mlp.experts.gate_up_proj", which is the parameter's own
  Tensor weight;     // [experts, out, in]
  std::vector<ops::LoraWeights> adapters;
  ops::QuantizedExperts quantized;  // computed with instead of `weight` once set, which then is a shape only

  ops::ExpertLinear product() const { return {weight, adapters, quantized.empty() ? nullptr : &quantized}; }
  void quantize(int bits);
};

struct SparseMoe {
  Linear router;  // a logit for each expert; no linear layer to tuners, as in transformers
  ExpertWeights gate_up, down;
  int64_t per_token = 0;
  int64_t moe_layer = 0;    // among the layers that have experts
  bool normalized = false;  // the weights of a token's experts sum to 1
  double jitter = 0;
  bool is_eager = false;  // expert by expert, each on the tokens that chose it, instead of all in one
  bool routes_in_float32 = false;
  std::optional<ops::ExpertCapacity> capacity;  // of a model in training; unset: experts take all rows

  // `router_logits`, if given, receives those of this layer. `drops`: drops rows beyond the capacity, as Megatron does in
  // training and evaluation; generation keeps all. `routed_tk`: the experts of an earlier pass (ops::route_to); undefined: the
  // router chooses. `dispatcher`: the processes with the other experts; null: all are local.
  Tensor operator()(const Tensor& x_th, const LinearContext& mode, TensorList* router_logits, bool drops,
                    const Tensor& routed_tk = {}, ops::ExpertDispatcher* dispatcher = nullptr) const;

 private:
  Tensor route(const Tensor& x_th, const LinearContext& mode) const;
};

}  // namespace hone::model
