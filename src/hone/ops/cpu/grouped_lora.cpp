#include "hone/ops/cpu/grouped_lora.h"

#include <algorithm>

#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/scratch.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kStep = kRowsAtOnce;

void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

void add_transposed(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to[j * rows + i] += from[i * columns + j];
}

struct Scratch {
  std::vector<float> zeros, b_t, da, db_t, dprojected;

  static Scratch& own() {  // of the calling thread: a group is too small to allocate for
    thread_local Scratch scratch;
    return scratch;
  }
};

EightRows rows_of(const float* factor, int64_t begin, int64_t rank, int64_t width, Scratch& scratch) {
  if (static_cast<int64_t>(scratch.zeros.size()) < width) scratch.zeros.assign(static_cast<size_t>(width), 0.0F);
  EightRows found;
  for (int64_t j = 0; j < kStep; ++j) found.rows[j] = begin + j < rank ? factor + (begin + j) * width : scratch.zeros.data();
  return found;
}

// scale * x F^T of the group's rows with the factor F [rank, width]; zeros after the rank.
void project(const LoraGroupView& group, const float* x, const float* factor, int64_t width, int64_t stride, Scratch& scratch,
             float* projected) {
  for (int64_t j = 0; j < stride; j += kStep)
    project_rows(x, group.count, width, rows_of(factor, j, group.rank, width, scratch), group.scale, projected + j, stride);
}

// y = p F of the group's rows, or y += p F.
void expand(const LoraGroupView& group, const float* p, int64_t stride, const float* factor, int64_t width, Scratch& scratch,
            float* y, bool adds = false) {
  for (int64_t j = 0; j < group.rank; j += kStep)
    expand_rows(p + j, stride, group.count, rows_of(factor, j, group.rank, width, scratch), width, adds || j > 0, y);
}

// p^T x: [rank, width].
void outer(const LoraGroupView& group, const float* p, int64_t stride, const float* x, int64_t width, float* to) {
  for (int64_t j = 0; j < group.rank; j += kStep)
    outer_rows(p + j, stride, x, group.count, width, std::min(kStep, group.rank - j), to + j * width);
}

// da = dprojected^T x, and db = dy^T projected.
void write_factor_gradients(const LoraGroupView& group, const GroupedLoraShape& shape, const float* dy, const float* x,
                            const float* projected, Scratch& scratch) {
  const int64_t numbers = group.rank * shape.inputs;
  auto* da = group.accumulates ? grown(scratch.da, numbers) : group.da;
  auto* db_t = grown(scratch.db_t, group.rank * shape.outputs);
  outer(group, scratch.dprojected.data(), shape.rank, x, shape.inputs, da);
  outer(group, projected, shape.rank, dy, shape.outputs, db_t);
  if (group.accumulates)
    for (int64_t i = 0; i < numbers; ++i) group.da[i] += da[i];
  (group.accumulates ? add_transposed : transpose)(db_t, group.rank, shape.outputs, group.db);
}

const float* transposed_b(const LoraGroupView& group, int64_t outputs, Scratch& scratch) {
  auto* b_t = grown(scratch.b_t, group.rank * outputs);
  transpose(group.b, outputs, group.rank, b_t);
  return b_t;
}

}  // namespace

void grouped_lora_forward(const std::vector<LoraGroupView>& groups, const GroupedLoraShape& shape, const float* x,
                          float* projected, float* y, bool adds) {
  parallel_pieces(static_cast<int64_t>(groups.size()), 1, [&](int64_t first, int64_t last) {
    auto& scratch = Scratch::own();
    for (int64_t i = first; i < last; ++i) {
      const auto& group = groups[static_cast<size_t>(i)];
      auto* own = projected + group.begin * shape.rank;
      project(group, x + group.begin * shape.inputs, group.a, shape.inputs, shape.rank, scratch, own);
      expand(group, own, shape.rank, transposed_b(group, shape.outputs, scratch), shape.outputs, scratch,
             y + group.begin * shape.outputs, adds);
    }
  });
}

void grouped_lora_backward(const std::vector<LoraGroupView>& groups, const GroupedLoraShape& shape, const float* dy,
                           const float* x, const float* projected, float* dx) {
  parallel_pieces(static_cast<int64_t>(groups.size()), 1, [&](int64_t first, int64_t last) {
    auto& scratch = Scratch::own();
    for (int64_t i = first; i < last; ++i) {
      const auto& group = groups[static_cast<size_t>(i)];
      const auto *dy_rows = dy + group.begin * shape.outputs, *x_rows = x + group.begin * shape.inputs;
      auto* dprojected = grown(scratch.dprojected, group.count * shape.rank);
      project(group, dy_rows, transposed_b(group, shape.outputs, scratch), shape.outputs, shape.rank, scratch, dprojected);
      write_factor_gradients(group, shape, dy_rows, x_rows, projected + group.begin * shape.rank, scratch);
      if (dx) expand(group, dprojected, shape.rank, group.a, shape.inputs, scratch, dx + group.begin * shape.inputs);
    }
  });
}

}  // namespace hone::ops::cpu
