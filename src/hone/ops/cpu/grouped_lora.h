// Low-rank updates of many small groups of rows, float32: a group has few rows and a small rank, so that calls of a GEMM would
// cost more than its products. Sums over a group do not depend on the other groups, nor on the number of threads.
#pragma once
#include <cstdint>
#include <vector>

#include "hone/ops/cpu/vector/low_rank.h"

namespace hone::ops::cpu {

// Rows [begin, begin + count) of a batch and their adapter: a [rank, inputs], b [outputs, rank], both row by row.
struct LoraGroupView {
  int64_t begin, count, rank;
  const float *a, *b;
  float scale;
  float *da = nullptr, *db = nullptr;  // where the backward pass writes
  bool accumulates = false;            // da and db are added to, not overwritten
};

struct GroupedLoraShape {
  int64_t inputs, outputs;
  int64_t rank;  // columns of `projected`: a multiple of kRowsAtOnce, at least the largest rank
};

// projected [T, rank] = scale * x A^T, zero in columns past a group's own rank, and y = projected B^T on the groups' rows, or y
// += projected B^T.
void grouped_lora_forward(const std::vector<LoraGroupView>& groups, const GroupedLoraShape& shape, const float* x,
                          float* projected, float* y, bool adds);
// da and db of every group, and unless it is null dx on the groups' rows.
void grouped_lora_backward(const std::vector<LoraGroupView>& groups, const GroupedLoraShape& shape, const float* dy,
                           const float* x, const float* projected, float* dx);

}  // namespace hone::ops::cpu
