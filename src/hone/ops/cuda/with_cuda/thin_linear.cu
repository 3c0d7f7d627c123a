#include "hone/ops/cuda/fused.h"
#include "hone/ops/cuda/thin_linear.h"
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kThinThreads = 128, kThinRows = 4, kMostThinRows = 2;  // rows of the weight in a block, and of x
template <bool kGated>
constexpr int kOutputsOf = kGated ? kThinRows / 2 : kThinRows;

template <class T>
struct ThinProduct {
  const T *x, *weight, *bias, *norm, *added;  // the last three may be null
  T* y;
  int width, outputs;
  float eps;
};

// A block computes four rows of the weight (gated: two rows for each of two outputs), and its threads split the row length. A
// thread issues all of its weight loads at once, before the previous kernel has ended, and converts x once for all four rows. The
// norm of a row of x is a common factor of its products and is applied at the end.
template <class T, int M, bool kNormed, bool kGated>
__global__ void __launch_bounds__(kThinThreads) thin_kernel(ThinProduct<T> a) {
  constexpr int kPack = Pack<T>::kCount, kAhead = 4, kOutputs = kOutputsOf<kGated>;
  const int first = blockIdx.x * kOutputs, packs = a.width / kPack;
  const T* rows[kThinRows];
#pragma unroll
  for (int r = 0; r < kThinRows; ++r) {
    const int output = min(first + r % kOutputs, a.outputs - 1) + r / kOutputs * a.outputs;
    rows[r] = a.weight + static_cast<int64_t>(output) * a.width;
  }
  let_next_begin();
  float sums[kThinRows][M] = {}, squares[M] = {};
  for (int begin = 0; begin < packs; begin += kThinThreads * kAhead) {
    Pack<T> weights[kAhead][kThinRows];
    auto place = [&](int k) { return begin + k * kThinThreads + static_cast<int>(threadIdx.x); };
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
#pragma unroll
      for (int r = 0; r < kThinRows; ++r) weights[k][r] = place(k) < packs ? stream_pack(rows[r] + place(k) * kPack) : Pack<T>{};
    if (begin == 0) wait_for_previous();  // results of other kernels are read from here on
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int at = place(k) * kPack;
      const bool inside = place(k) < packs;
      PackFloats<T> x[M];
#pragma unroll
      for (int m = 0; m < M; ++m) x[m] = floats_of(inside ? load_pack(a.x + static_cast<int64_t>(m) * a.width + at) : Pack<T>{});
      if constexpr (kNormed) {
        const auto scale = floats_of(inside ? load_pack(a.norm + at) : Pack<T>{});
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
          for (int j = 0; j < kPack; ++j) squares[m] += x[m].values[j] * x[m].values[j], x[m].values[j] *= scale.values[j];
      }
#pragma unroll
      for (int r = 0; r < kThinRows; ++r) {
        const auto row = floats_of(weights[k][r]);
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
          for (int j = 0; j < kPack; ++j) sums[r][m] += row.values[j] * x[m].values[j];
      }
    }
  }
  __shared__ float all_sums[kThinRows][M][kThinThreads / 32], all_squares[M][kThinThreads / 32];
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int r = 0; r < kThinRows; ++r)
      if (const float sum = warp_sum(sums[r][m]); threadIdx.x % 32 == 0) all_sums[r][m][warp] = sum;
    if constexpr (kNormed)
      if (const float sum = warp_sum(squares[m]); threadIdx.x % 32 == 0) all_squares[m][warp] = sum;
  }
  __syncthreads();
  const int m = threadIdx.x / kOutputs, own = threadIdx.x % kOutputs, output = first + own;
  if (m >= M || output >= a.outputs) return;
  auto total = [](const float(&parts)[kThinThreads / 32]) {
    float sum = 0;
    for (float part : parts) sum += part;
    return sum;
  };
  const float inverse = kNormed ? rsqrtf(total(all_squares[m]) / static_cast<float>(a.width) + a.eps) : 1.0f;
  auto value_of = [&](int r) {
    const int from = output + r * a.outputs;
    return total(all_sums[own + r * kOutputs][m]) * inverse + (a.bias ? to_float(a.bias[from]) : 0.0f);
  };
  float value = value_of(0);
  if constexpr (kGated) value = value / (1.0f + __expf(-value)) * value_of(1);
  const int64_t to = static_cast<int64_t>(m) * a.outputs + output;
  a.y[to] = from_float<T>(a.added ? value + to_float(a.added[to]) : value);
}

template <bool kNormed, bool kGated, class T>
void launch_thin(const ThinProduct<T>& product, int64_t rows) {
  constexpr int kOutputs = kOutputsOf<kGated>;
  const auto blocks = static_cast<unsigned>((product.outputs + kOutputs - 1) / kOutputs);
  auto kernel = rows == 1 ? thin_kernel<T, 1, kNormed, kGated> : thin_kernel<T, kMostThinRows, kNormed, kGated>;
  launch_dependent(kernel, blocks, kThinThreads, c10::cuda::getCurrentCUDAStream(), product);
}

}  // namespace

bool supports_thin(const at::Tensor& x, const at::Tensor& weight) {
  return supports_fused(x) && x.dim() == 2 && x.size(0) <= kMostThinRows && x.scalar_type() == weight.scalar_type() &&
         x.scalar_type() != at::kFloat && x.size(1) % 8 == 0 && weight.is_contiguous();
}

at::Tensor thin_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const ThinFusion& with) {
  auto x = input.contiguous();
  const int64_t outputs = weight.size(0) / (with.gated ? 2 : 1);
  auto y = at::empty({x.size(0), outputs}, x.options());
  auto run = [&](auto type) {
    using T = decltype(type);
    auto optional = [](const at::Tensor& values) { return values.defined() ? data<T>(values) : nullptr; };
    const ThinProduct<T> product{data<T>(x),
                                 data<T>(weight),
                                 optional(bias),
                                 optional(with.norm),
                                 optional(with.added),
                                 mutable_data<T>(y),
                                 static_cast<int>(x.size(1)),
                                 static_cast<int>(outputs),
                                 static_cast<float>(with.eps)};
    if (with.norm.defined())
      with.gated ? launch_thin<true, true>(product, x.size(0)) : launch_thin<true, false>(product, x.size(0));
    else
      with.gated ? launch_thin<false, true>(product, x.size(0)) : launch_thin<false, false>(product, x.size(0));
  };
  x.scalar_type() == at::kHalf ? run(__half{}) : run(__nv_bfloat16{});
  return y;
}

}  // namespace hone::ops::cuda
