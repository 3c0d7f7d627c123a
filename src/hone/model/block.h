// A block of a decoder, its modules and its computation. It is implemented once, for every family.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "hone/model/gated_delta_net.h"
#include "hone/model/inference/fused_projection.h"
#include "hone/model/layers.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/module.h"
#include "hone/ops/attention/attention.h"
#include "hone/ops/attention/qk_norm_rope.h"
#include "hone/ops/rms_norm.h"

namespace hone::model {

struct ForwardContext;

struct Attention {
  Linear q, k, v, o;
  std::optional<Norm> q_norm, k_norm;
  FusedProjection qkv;    // inference, once joined
  bool has_gate = false;  // q projects to queries and as many gates, which multiply the output of the head

  // Whether one product and one operator compute it from its input in inference (ops/attention/fused_qkv_attention.h).
  bool can_fuse() const { return !has_gate && (!q_norm || !q_norm->zero_centered); }
  ops::QkNorm norms() const { return q_norm ? ops::QkNorm{q_norm->weight, k_norm->weight, q_norm->eps} : ops::QkNorm(); }
};

struct Mlp {
  Linear gate, up, down;
  FusedProjection gate_up;  // inference, once joined
  Activation activation = Activation::silu;
};

struct Block {
  std::string name;               // "model.layers.0"
  Norm input_norm, pre_mlp_norm;  // before attention, before the MLP
  std::optional<Norm> post_attention_norm, post_mlp_norm;
  Attention attention;                     // without weights where there is a delta_net
  std::optional<GatedDeltaNet> delta_net;  // linear attention instead
  std::optional<Mlp> mlp;                  // next to experts: the shared expert, weighted by shared_gate
  std::optional<SparseMoe> moe;            // absent in a dense block
  std::optional<Linear> shared_gate;
  ops::AttentionShape shape;
  int64_t layer = 0;
  double residual_scale = 1;              // of the outputs of attention and MLP
  bool uses_local_rope = false;           // RoPE of layers with a sliding window
  Recompute recompute = Recompute::none;  // in training (memory/activation_checkpointing.h)

  at::Device device() const { return input_norm.weight.device(); }
  Module module();
  bool uses_random_numbers() const;       // in a training pass: dropout, jitter
  TensorList trained_parameters() const;  // every tensor that requires a gradient, adapters included
};

Tensor block_forward(const Block& block, const Tensor& x_th, const ForwardContext& context);
// The same with x and its norm; returns the sum and its norm by the next norm layer, of another block or the final one.
ops::NormedSum block_forward(const Block& block, const ops::NormedSum& x, const Norm& next, const ForwardContext& context);
// The same as the first, saving less for the backward pass, which keeps `context` and recomputes that part.
Tensor block_forward(const Block& block, const Tensor& x_th, const std::shared_ptr<const ForwardContext>& context,
                     Recompute recomputed);

}  // namespace hone::model
