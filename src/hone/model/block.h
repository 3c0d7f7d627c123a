// A block of a decoder, its modules and its computation. It is implemented once, for every family.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "hone/model/distributed_attention.h"
#include "hone/model/gated_delta_net.h"
#include "hone/model/inference/fused_projection.h"
#include "hone/model/inference/paged_kv_cache.h"
#include "hone/model/layers.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/module.h"
#include "hone/model/module_observer.h"
#include "hone/model/tensor_parallel/region.h"
#include "hone/ops/attention/attention.h"
#include "hone/ops/attention/rope.h"
#include "hone/ops/attention/shifted_attention.h"
#include "hone/ops/rms_norm.h"

namespace hone::model {

struct Attention {
  Linear q, k, v, o;
  std::optional<Norm> q_norm, k_norm;
  FusedProjection qkv;    // inference, once joined
  bool has_gate = false;  // q gives each head its queries and as many gates of its output

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
  std::optional<SparseMoe> mixture;        // absent in a dense block
  std::optional<Linear> shared_gate;
  ops::AttentionShape shape;
  int64_t layer = 0;
  double residual_scale = 1;              // of what its halves add
  bool uses_local_rope = false;           // its rotation is that of layers with a window
  Recompute recompute = Recompute::none;  // in training (memory/activation_checkpointing.h)

  at::Device device() const { return input_norm.weight.device(); }
  Module module();
  bool draws() const;          // whether a training pass draws random numbers
  TensorList trained() const;  // every tensor that requires a gradient, adapters included
};

// Inputs shared by all blocks of one forward pass.
struct ForwardContext {
  ops::AttentionMetadata plan;
  ops::RopeTable rope;
  PagedKvCache* cache = nullptr;
  LinearContext mode;
  DistributedAttention* split = nullptr;                         // null: all positions are here
  TensorParallelRegion* region = nullptr;                        // null: what a block computes is whole
  ops::ExpertDispatcher* experts = nullptr;                      // null: experts are where the block is
  std::shared_ptr<const ops::ShiftedAttentionMetadata> shifted;  // null: attention is full
  ActivationOffloader* store = nullptr;                          // null: inputs of recomputed blocks stay on the device
  TensorList* router_logits = nullptr;                           // gets those of every layer that has experts
  ops::RopeTable local_rope = {};                                // of layers that turn as windows
  ModuleObserver* observer = nullptr;                            // null: module boundaries are not observed
  Tensor output_rows_r = {};                                     // of the last block: the rows that are wanted; undefined: all
  Tensor routed_experts_tlk = {};                                // router replay; undefined: routers choose
  RecurrentStates* states = nullptr;                             // of linear attention, with a cache; null: it starts from zero
  std::shared_ptr<const ops::LinearAttentionMetadata> linear_plan = {};  // of models with linear attention
};

Tensor block_forward(const Block& block, const Tensor& x_th, const ForwardContext& pass);
// The same with x and its norm; returns the sum and its norm by the next norm layer, of another block or the final one.
ops::NormedSum block_forward(const Block& block, const ops::NormedSum& x, const Norm& next, const ForwardContext& pass);
// The same as the first, saving less for the backward pass, which keeps `pass` and recomputes that part.
Tensor block_forward(const Block& block, const Tensor& x_th, const std::shared_ptr<const ForwardContext>& pass, Recompute again);

}  // namespace hone::model
