// Auxiliary losses of MoE routers.
#pragma once
#include "hone/train/methods/loss.h"

namespace hone::train {

struct RouterLossConfig {
  double balance = 0;  // so many times the balance of experts is added, and logged as aux_loss
  double z = 0;        // so many times the mean square of each layer's log-sum-exp, which keeps logits small; logged as z_loss

  bool any() const { return balance > 0 || z > 0; }
};

// Switch Transformers' auxiliary loss over all layers, as in transformers' load_balancing_loss_func: 1 per chosen expert if the
// load is balanced, more otherwise. `router_logits` [T, experts] of each layer may be on several devices; the result is on
// `device`.
Tensor load_balancing_loss(const TensorList& router_logits, int64_t per_token, at::Device device);

// Added to the sum of `items` losses; nothing without router logits.
void add_router_losses(LossSum& result, const ForwardOutputs& outputs, const RouterLossConfig& config, double items);

}  // namespace hone::train
