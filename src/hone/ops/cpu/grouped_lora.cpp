#include "hone/ops/cpu/grouped_lora.h"

#include <algorithm>

#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {
namespace {

using F32x8 = float __attribute__((vector_size(32)));
static_assert(sizeof(F32x8) == kLoraRankStep * sizeof(float));
constexpr int64_t kStep = kLoraRankStep;

struct FullStep {
  static constexpr int64_t count = kStep;
};
template <class Extent>
HONE_INLINE F32x8 load_eight(const float* from, Extent extent) {
  F32x8 values{};
  std::memcpy(&values, from, static_cast<size_t>(extent.count) * sizeof(float));
  return values;
}
template <class Extent>
HONE_INLINE void store_eight(float* to, F32x8 values, Extent extent) {
  std::memcpy(to, &values, static_cast<size_t>(extent.count) * sizeof(float));
}
// body(i, extent) for every eight of a row; only the last may be a part.
template <class Body>
HONE_INLINE void for_each_eight(int64_t width, Body body) {
  int64_t i = 0;
  for (; i + kStep <= width; i += kStep) body(i, FullStep{});
  if (i < width) body(i, VectorTail{width - i});
}

// Eight rows of a factor. Behind its rank they are rows of zeros.
struct RankStep {
  const float* rows[kStep];
};

// to[j] = scale * (x . rows[j])
HONE_CPU_KERNEL void project_row(const float* x, const RankStep& step, int64_t width, float scale, float* to) {
  F32x8 sums[kStep] = {};
  for_each_eight(width, HONE_VECTOR_LOOP({
                   const F32x8 values = load_eight(x + i, extent);
                   for (int64_t j = 0; j < kStep; ++j) sums[j] += values * load_eight(step.rows[j] + i, extent);
                 }));
  for (int64_t j = 0; j < kStep; ++j) {
    const F32x8& s = sums[j];
    to[j] = scale * (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
  }
}

// y = p[0] rows[0] + ... + p[7] rows[7], added to what is there where `adds`.
HONE_CPU_KERNEL void expand_row(const float* p, const RankStep& step, int64_t width, bool adds, float* y) {
  for_each_eight(width, HONE_VECTOR_LOOP({
                   F32x8 sum = adds ? load_eight(y + i, extent) : F32x8{};
                   for (int64_t j = 0; j < kStep; ++j) sum += p[j] * load_eight(step.rows[j] + i, extent);
                   store_eight(y + i, sum, extent);
                 }));
}

// to[j] = sum over rows t of p[t][j] * x[t], for the first `ranks` of eight.
HONE_CPU_KERNEL void outer_rows(const float* p, int64_t p_stride, const float* x, int64_t count, int64_t width, int64_t ranks,
                                float* to) {
  for_each_eight(width, HONE_VECTOR_LOOP({
                   F32x8 sums[kStep] = {};
                   for (int64_t t = 0; t < count; ++t) {
                     const F32x8 values = load_eight(x + t * width + i, extent);
                     for (int64_t j = 0; j < kStep; ++j) sums[j] += p[t * p_stride + j] * values;
                   }
                   for (int64_t j = 0; j < ranks; ++j) store_eight(to + j * width + i, sums[j], extent);
                 }));
}

void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

// What one thread needs beside the tensors.
struct Scratch {
  std::vector<float> zeros, b_t, db_t, dprojected;
};

RankStep step_of(const float* factor, int64_t begin, int64_t rank, int64_t width, Scratch& scratch) {
  if (static_cast<int64_t>(scratch.zeros.size()) < width) scratch.zeros.assign(static_cast<size_t>(width), 0.0F);
  RankStep step;
  for (int64_t j = 0; j < kStep; ++j) step.rows[j] = begin + j < rank ? factor + (begin + j) * width : scratch.zeros.data();
  return step;
}

// scale * x F^T of `count` rows with the factor F [rank, width]; zeros behind the rank.
void project(const LoraGroupView& group, const float* x, const float* factor, int64_t width, int64_t stride, Scratch& scratch,
             float* projected) {
  for (int64_t j = 0; j < stride; j += kStep) {
    const auto step = step_of(factor, j, group.rank, width, scratch);
    for (int64_t t = 0; t < group.count; ++t) project_row(x + t * width, step, width, group.scale, projected + t * stride + j);
  }
}

// y = p F of `count` rows.
void expand(const LoraGroupView& group, const float* p, int64_t stride, const float* factor, int64_t width, Scratch& scratch,
            float* y) {
  for (int64_t j = 0; j < group.rank; j += kStep) {
    const auto step = step_of(factor, j, group.rank, width, scratch);
    for (int64_t t = 0; t < group.count; ++t) expand_row(p + t * stride + j, step, width, j > 0, y + t * width);
  }
}

// p^T x: [rank, width].
void outer(const LoraGroupView& group, const float* p, int64_t stride, const float* x, int64_t width, float* to) {
  for (int64_t j = 0; j < group.rank; j += kStep)
    outer_rows(p + j, stride, x, group.count, width, std::min(kStep, group.rank - j), to + j * width);
}

const float* transposed_b(const LoraGroupView& group, int64_t outputs, Scratch& scratch) {
  scratch.b_t.resize(static_cast<size_t>(group.rank * outputs));
  transpose(group.b, outputs, group.rank, scratch.b_t.data());
  return scratch.b_t.data();
}

}  // namespace

void grouped_lora_forward(const std::vector<LoraGroupView>& groups, const GroupedLoraShape& shape, const float* x,
                          float* projected, float* y) {
  parallel_pieces(static_cast<int64_t>(groups.size()), 1, [&](int64_t first, int64_t last) {
    Scratch scratch;
    for (int64_t i = first; i < last; ++i) {
      const auto& group = groups[static_cast<size_t>(i)];
      auto* own = projected + group.begin * shape.rank;
      project(group, x + group.begin * shape.inputs, group.a, shape.inputs, shape.rank, scratch, own);
      expand(group, own, shape.rank, transposed_b(group, shape.outputs, scratch), shape.outputs, scratch,
             y + group.begin * shape.outputs);
    }
  });
}

void grouped_lora_backward(const std::vector<LoraGroupView>& groups, const GroupedLoraShape& shape, const float* dy,
                           const float* x, const float* projected, float* dx) {
  parallel_pieces(static_cast<int64_t>(groups.size()), 1, [&](int64_t first, int64_t last) {
    Scratch scratch;
    for (int64_t i = first; i < last; ++i) {
      const auto& group = groups[static_cast<size_t>(i)];
      const auto *dy_rows = dy + group.begin * shape.outputs, *x_rows = x + group.begin * shape.inputs;
      scratch.dprojected.resize(static_cast<size_t>(group.count * shape.rank));
      scratch.db_t.resize(static_cast<size_t>(group.rank * shape.outputs));
      project(group, dy_rows, transposed_b(group, shape.outputs, scratch), shape.outputs, shape.rank, scratch,
              scratch.dprojected.data());
      outer(group, scratch.dprojected.data(), shape.rank, x_rows, shape.inputs, group.da);
      outer(group, projected + group.begin * shape.rank, shape.rank, dy_rows, shape.outputs, scratch.db_t.data());
      transpose(scratch.db_t.data(), group.rank, shape.outputs, group.db);
      if (dx)
        expand(group, scratch.dprojected.data(), shape.rank, group.a, shape.inputs, scratch, dx + group.begin * shape.inputs);
    }
  });
}

}  // namespace hone::ops::cpu
