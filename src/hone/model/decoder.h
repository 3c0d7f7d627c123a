// The module tree of a decoder and what its blocks compute. A block is written once, for every family.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "hone/model/config.h"
#include "hone/model/joined.h"
#include "hone/model/layers.h"
#include "hone/model/mixture.h"
#include "hone/model/paged_cache.h"
#include "hone/model/partial_sums.h"
#include "hone/model/recompute.h"
#include "hone/model/split_attention.h"
#include "hone/ops/attention.h"
#include "hone/ops/rope.h"
#include "hone/ops/shifted_attention.h"

namespace hone::model {

struct Attention {
  Linear q, k, v, o;
  std::optional<Norm> q_norm, k_norm;
  Joined qkv;  // inference, once joined
};

struct Mlp {
  Linear gate, up, down;
  Joined gate_up;  // inference, once joined
  Activation activation = Activation::silu;
};

struct Block {
  Norm input_norm, attention_norm;  // before attention, before the MLP
  std::optional<Norm> behind_attention, behind_mlp;
  Attention attention;
  std::optional<Mlp> mlp;          // beside experts: the one that every token goes through, weighted by shared_gate
  std::optional<Mixture> mixture;  // absent in a dense block
  std::optional<Linear> shared_gate;
  ops::AttentionShape shape;
  int64_t layer = 0;
  double residual_scale = 1;      // of what its halves add
  bool turns_as_windows = false;  // its rotation is that of layers with a window

  at::Device device() const { return input_norm.weight.device(); }
  std::vector<Linear*> linears();                 // in Hugging Face's order
  std::vector<Norm*> norms();                     // those of heads first
  std::vector<NamedParameter> parameters();       // with the norms
  std::vector<AdapterSlot> slots();               // the linear layers, then what else can be adapted
  bool draws() const;                             // whether a training pass draws random numbers
  TensorList trained() const;                     // every tensor that asks for a gradient, adapters included
};

struct Decoder {
  DecoderConfig config;
  Embedding embedding;
  std::vector<Block> blocks;
  Norm norm;
  Linear head;
  std::optional<Linear> value_head;  // of one value a token, where there is one (value_head.h)

  std::vector<NamedParameter> parameters();  // a tied head is not listed
};

// Names and shapes of every parameter, tensors undefined: what a loader fills.
Decoder decoder_skeleton(const DecoderConfig& config);

// What all blocks of one forward pass share.
struct Pass {
  ops::AttentionPlan plan;
  ops::RopeTable rope;
  PagedCache* cache = nullptr;
  LinearMode mode;
  SplitAttention* split = nullptr;   // null: all positions are here
  PartialSums* sums = nullptr;       // null: what a block computes is whole
  std::shared_ptr<const ops::ShiftedPlan> shifted;  // null: attention is full
  ActivationStore* store = nullptr;  // null: inputs of recomputed blocks stay on the device
  TensorList* router_logits = nullptr;  // gets those of every layer that has experts
  ops::RopeTable window_rope = {};      // of layers that turn as windows
};

Tensor block_forward(const Block& block, const Tensor& x_th, const Pass& pass);
// The same, keeping less for the backward pass, which holds on to `pass` and runs that part again.
Tensor block_forward(const Block& block, const Tensor& x_th, const std::shared_ptr<const Pass>& pass, Recompute again);

}  // namespace hone::model
