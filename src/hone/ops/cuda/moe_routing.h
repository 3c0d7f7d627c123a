// Routing of tokens to experts on an NVIDIA GPU. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// The `choices` most probable experts of each row of logits [T, E], the first of equal ones, and their probabilities, which sum
// to 1 if `normalized`.
bool supports_routing(const Tensor& logits_te, int64_t choices);
struct Routed {
  Tensor experts_tk, weights_tk, logsumexp_t;  // int64, float32, float32
};
Routed route_top_k(const Tensor& logits_te, int64_t choices, bool normalized);
Tensor route_top_k_backward(const Tensor& dweights_tk, const Tensor& logits_te, const Routed& routed, bool normalized);

// Choices sorted by expert, stable, without synchronization.
bool supports_expert_sort(const Tensor& experts_tk, int64_t experts);
struct ExpertOrder {
  Tensor order_r, places_r, counts_e;  // int32: the choice of a row, the row of a choice; int64: rows of each expert
};
ExpertOrder sort_by_expert(const Tensor& experts_tk, int64_t experts);

}  // namespace hone::ops::cuda
