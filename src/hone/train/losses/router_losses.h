// Auxiliary losses of MoE routers.
#pragma once
#include "hone/train/methods/loss.h"

namespace hone::train {

struct RouterLossConfig {
  double balance = 0;  // weight of the load-balancing loss, which is logged as aux_loss
  double z = 0;        // weight of the mean square of each layer's log-sum-exp, which keeps logits small; logged as z_loss

  bool any() const { return balance > 0 || z > 0; }
};

// Switch Transformers' auxiliary loss over all layers, as in transformers' load_balancing_loss_func: 1 per chosen expert if the
// load is balanced, more otherwise. `router_logits` [T, experts] of each layer may be on several devices; the result is on
// `device`.
Tensor load_balancing_loss(const TensorList& router_logits, int64_t per_token, at::Device device);

// Ranks that split the sequences of a pass, and how many of these are counted: those after them are padding, or train nothing.
struct SplitPass {
  const parallel::SequenceParallel* sequence = nullptr;  // null: nothing is split, and all are counted
  int64_t sequences = 0;
};

// Added to the sum of `items` losses; nothing without router logits. Of a split pass each rank adds the losses of all tokens,
// with the gradients of its own (count_once).
void add_router_losses(LossSum& result, const ForwardOutputs& outputs, const RouterLossConfig& config, double items,
                       const SplitPass& split = {});

// The same for a loss whose items are labeled tokens: each micro-batch is weighted by its targets, as in the cross-entropy, by
// those of all ranks that split its sequences. `sequence` null: nothing splits them.
void add_router_losses_per_target(LossSum& result, const ForwardOutputs& outputs, const RouterLossConfig& config,
                                  const parallel::SequenceParallel* sequence);

}  // namespace hone::train
