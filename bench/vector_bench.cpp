// Element-wise kernels on Google Highway (ops/cpu/vector) and the same formulas in the compiler's vector types (simd.h),
// which they replaced: one thread, rows that stay in the cache.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "hone/ops/cpu/simd.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {
namespace {

template <class T>
HONE_INLINE void swiglu_body(const T* gate, const T* up, T* y, int64_t count) {
  for_each_vector(count, HONE_VECTOR_LOOP(auto g = load(gate + i, extent); store(
                                              y + i, rounded<T>(g * (1.0f / (1.0f + exp(-g)))) * load(up + i, extent), extent)));
}
HONE_CPU_KERNEL void swiglu_lanes(const float* gate, const float* up, float* y, int64_t count) {
  swiglu_body(gate, up, y, count);
}
HONE_CPU_KERNEL void swiglu_lanes(const c10::BFloat16* gate, const c10::BFloat16* up, c10::BFloat16* y, int64_t count) {
  swiglu_body(gate, up, y, count);
}
HONE_CPU_KERNEL void norm_lanes(const float* x, const float* weight, float* y, int64_t width) {
  F32x16 squares{};
  for_each_vector(width, HONE_VECTOR_LOOP(auto v = load(x + i, extent); squares += v * v));
  float scale = 1.0f / std::sqrt(sum(squares) / static_cast<float>(width) + 1e-6f);
  for_each_vector(width, HONE_VECTOR_LOOP(store(y + i, load(x + i, extent) * scale * load(weight + i, extent), extent)));
}
HONE_CPU_KERNEL float softmax_lanes(const float* x, int64_t width) {
  F32x16 largest = splat(-INFINITY), exponentials{};
  for_each_vector(width, HONE_VECTOR_LOOP(largest = max(largest, load(x + i, extent))));
  const float peak = max(largest);
  for_each_vector(width, HONE_VECTOR_LOOP(exponentials += exp(load(x + i, extent) - peak)));
  return sum(exponentials);
}

constexpr int64_t kWidth = 1024, kRows = 4;

template <class T>
std::vector<T> numbers() {
  std::vector<T> values(kWidth * kRows);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7919) % 2003) / 250.0f - 4.0f;
  return values;
}

// body(a row, where its result goes)
template <class T, class Body>
void over_rows(benchmark::State& state, Body body) {
  const auto x = numbers<T>();
  std::vector<T> y(x.size());
  for (auto _ : state)
    for (int64_t row = 0; row < kRows; ++row) {
      body(x.data() + row * kWidth, y.data() + row * kWidth);
      benchmark::ClobberMemory();
    }
  state.SetItemsProcessed(state.iterations() * kRows * kWidth);
}

template <class T>
void swiglu(benchmark::State& state, bool highway) {
  over_rows<T>(state, [&](const T* x, T* y) { highway ? swiglu_span(x, x, y, kWidth) : swiglu_lanes(x, x, y, kWidth); });
}
void norm(benchmark::State& state, bool highway) {
  float rstd;
  over_rows<float>(state, [&](const float* x, float* y) {
    highway ? rms_norm_rows<float>(x, nullptr, x, nullptr, y, &rstd, 1, kWidth, 1e-6f) : norm_lanes(x, x, y, kWidth);
  });
}
void softmax(benchmark::State& state, bool highway) {
  over_rows<float>(
      state, [&](const float* x, float* y) { *y = highway ? softmax_of_row(x, kWidth, false).total : softmax_lanes(x, kWidth); });
}

void swiglu_float32(benchmark::State& state, bool highway) { swiglu<float>(state, highway); }
void swiglu_bf16(benchmark::State& state, bool highway) { swiglu<c10::BFloat16>(state, highway); }

BENCHMARK_CAPTURE(swiglu_float32, lanes, false);
BENCHMARK_CAPTURE(swiglu_float32, highway, true);
BENCHMARK_CAPTURE(swiglu_bf16, lanes, false);
BENCHMARK_CAPTURE(swiglu_bf16, highway, true);
BENCHMARK_CAPTURE(norm, lanes, false);
BENCHMARK_CAPTURE(norm, highway, true);
BENCHMARK_CAPTURE(softmax, lanes, false);
BENCHMARK_CAPTURE(softmax, highway, true);

}  // namespace
}  // namespace hone::ops::cpu

BENCHMARK_MAIN();
