// Products of rows with eight rows of a small matrix, float32: what low-rank updates of few tokens and attention over short
// sequences consist of.
#pragma once
#include <cstdint>

namespace hone::ops::cpu {

constexpr int64_t kRowsAtOnce = 8;

// Each of `width` numbers.
struct EightRows {
  const float* rows[kRowsAtOnce];
};

// p[t][j] = scale * (x[t] . rows[j]), of `count` rows of x; p has `stride` numbers a row.
void project_rows(const float* x, int64_t count, int64_t width, const EightRows& eight, float scale, float* p, int64_t stride);
// y[t] = p[t][0] rows[0] + ... + p[t][7] rows[7], added to what is there where `adds`.
void expand_rows(const float* p, int64_t stride, int64_t count, const EightRows& eight, int64_t width, bool adds, float* y);
// to[j] = sum over t of p[t][j] x[t], for the first `rows` of eight.
void outer_rows(const float* p, int64_t stride, const float* x, int64_t count, int64_t width, int64_t rows, float* to);

}  // namespace hone::ops::cpu
