// Load-balancing loss of MoE routers.
#pragma once
#include "hone/device/tensor.h"

namespace hone::train {

// Switch Transformers' auxiliary loss over all layers together, as transformers' load_balancing_loss_func has it: 1 per chosen
// expert when the load is even, more when it is not. `router_logits` [T, experts] of each layer, which may are on several
// devices; the result is on `device`.
Tensor load_balancing_loss(const TensorList& router_logits, int64_t per_token, at::Device device);

}  // namespace hone::train
