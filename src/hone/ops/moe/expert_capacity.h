// Experts that take no more rows than they have room for: Megatron's token dropping.
#pragma once
#include "hone/ops/moe/moe.h"

namespace hone::ops {

struct ExpertCapacity {
  double factor = 1;         // of the rows that an expert has when all have as many
  bool by_position = false;  // the last tokens are dropped, instead of those that count least
};

// Rows that each of `experts` takes of a batch of choices [T, k].
int64_t expert_capacity(const Tensor& experts_tk, int64_t experts, double factor);

// Choices beyond an expert's capacity are dropped; the weights of those that stay are what they were.
TopKRouting drop_tokens(const TopKRouting& choice, int64_t experts, const ExpertCapacity& capacity);

}  // namespace hone::ops
