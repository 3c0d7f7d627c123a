// Experts with a limited capacity: Megatron's token dropping.
#pragma once
#include "hone/ops/moe/moe.h"

namespace hone::ops {

struct ExpertCapacity {
  double factor = 1;         // of the rows that an expert has when all have as many
  bool by_position = false;  // the last tokens are dropped, instead of those that count least
};

// Capacity of each of `experts` for choices [T, k].
int64_t expert_capacity(const Tensor& experts_tk, int64_t experts, double factor);

// Drops choices beyond an expert's capacity; the weights of the others do not change.
TopKRouting drop_tokens(const TopKRouting& choice, int64_t experts, const ExpertCapacity& capacity);

}  // namespace hone::ops
