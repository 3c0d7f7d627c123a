// A thread has 16 bytes of a head's first half and the 16 bytes that rotate with them; neighbouring lanes share a head.
#include "hone/ops/cuda/qk_norm_rope.h"

#include "hone/ops/cuda/column_sums.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kRopeThreads = 256, kTrainedHeadBlocks = 132 * 8;

template <class T>
struct HeadRows {
  const T *x, *dy, *weight;  // dy: null in the forward pass
  const float *cos, *sin;
  T* out;                                        // y, or the gradient of x
  float *rstd, *dweight;                         // dweight: a row of sums per block
  int64_t x_stride, dy_stride, out_stride, all;  // all: heads of all rows
  int heads, lanes;
  float eps;
};

// Sum over the lanes of a head; `lanes` is a power of two.
__device__ inline float sum_of_head(float value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// The place of a thread's numbers: the first half's are at `first` of its row, the second half's `half` later.
struct HeadPlace {
  int64_t index, row;  // index: of the head among all
  int first, in_half, half;
};
template <class T>
__device__ inline HeadPlace place_of(const HeadRows<T>& a, int64_t index, int lane) {
  const int half = a.lanes * Pack<T>::kCount, in_half = lane * Pack<T>::kCount;
  const int64_t row = index / a.heads;
  return {index, row, static_cast<int>(index - row * a.heads) * 2 * half + in_half, in_half, half};
}

template <class T>
__global__ void __launch_bounds__(kRopeThreads) norm_rope_kernel(HeadRows<T> a) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kRopeThreads + threadIdx.x;
  const int lane = threadIdx.x % a.lanes;
  const bool there = thread / a.lanes < a.all;
  const auto at = place_of(a, there ? thread / a.lanes : a.all - 1, lane);  // all lanes of a warp take part in its sums
  const T* from = a.x + at.row * a.x_stride + at.first;
  auto first = floats_of(load_pack(from)), second = floats_of(load_pack(from + at.half));
  float squares = 0;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) squares += first.values[j] * first.values[j] + second.values[j] * second.values[j];
  const float inverse = rsqrtf(sum_of_head(squares, a.lanes) / static_cast<float>(2 * at.half) + a.eps);
  if (!there) return;
  if (lane == 0) a.rstd[at.index] = inverse;
  const auto low = floats_of(load_pack(a.weight + at.in_half)), high = floats_of(load_pack(a.weight + at.half + at.in_half));
  const float *c = a.cos + at.row * at.half + at.in_half, *s = a.sin + at.row * at.half + at.in_half;
  auto normed = [&](float value, float weight) {  // rounded before the weight and after it, as transformers does
    return to_float(from_float<T>(to_float(from_float<T>(value * inverse)) * weight));
  };
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) {
    const float p = normed(first.values[j], low.values[j]), q = normed(second.values[j], high.values[j]);
    first.values[j] = p * c[j] - q * s[j];
    second.values[j] = q * c[j] + p * s[j];
  }
  T* to = a.out + at.row * a.out_stride + at.first;
  store_pack(to, rounded_pack(first));
  store_pack(to + at.half, rounded_pack(second));
}

// A thread keeps its columns from head to head, so that the weight's gradient accumulates in registers.
template <class T, bool kTrains>
__global__ void __launch_bounds__(kRopeThreads) norm_rope_backward_kernel(HeadRows<T> a) {
  constexpr int kPack = Pack<T>::kCount;
  const int lane = threadIdx.x % a.lanes;
  const int64_t step = static_cast<int64_t>(gridDim.x) * (kRopeThreads / a.lanes);
  const int64_t own = static_cast<int64_t>(blockIdx.x) * (kRopeThreads / a.lanes) + threadIdx.x / a.lanes;
  const int64_t rounds = (a.all + step - 1) / step;
  const int half = a.lanes * kPack;
  const auto low = floats_of(load_pack(a.weight + lane * kPack)), high = floats_of(load_pack(a.weight + half + lane * kPack));
  PackFloats<T> low_sums{}, high_sums{};
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t index = own + round * step;
    const bool there = index < a.all;
    const auto at = place_of(a, there ? index : a.all - 1, lane);
    const T *from = a.x + at.row * a.x_stride + at.first, *grads = a.dy + at.row * a.dy_stride + at.first;
    auto first = floats_of(load_pack(from)), second = floats_of(load_pack(from + half));
    auto dfirst = floats_of(load_pack(grads)), dsecond = floats_of(load_pack(grads + half));
    const float *c = a.cos + at.row * half + at.in_half, *s = a.sin + at.row * half + at.in_half;
    const float inverse = a.rstd[at.index];
    float dot = 0;
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float p = dfirst.values[j], q = dsecond.values[j];
      dfirst.values[j] = p * c[j] + q * s[j];
      dsecond.values[j] = q * c[j] - p * s[j];
      first.values[j] *= inverse, second.values[j] *= inverse;
      if (kTrains && there) {
        low_sums.values[j] += dfirst.values[j] * first.values[j];
        high_sums.values[j] += dsecond.values[j] * second.values[j];
      }
      dfirst.values[j] *= low.values[j], dsecond.values[j] *= high.values[j];
      dot += dfirst.values[j] * first.values[j] + dsecond.values[j] * second.values[j];
    }
    const float mean = sum_of_head(dot, a.lanes) / static_cast<float>(2 * half);
    if (!there) continue;
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      first.values[j] = inverse * (dfirst.values[j] - first.values[j] * mean);
      second.values[j] = inverse * (dsecond.values[j] - second.values[j] * mean);
    }
    T* to = a.out + at.row * a.out_stride + at.first;
    store_pack(to, rounded_pack(first));
    store_pack(to + half, rounded_pack(second));
  }
  if constexpr (kTrains) {
    __shared__ float parts[kRopeThreads][2 * kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      parts[threadIdx.x][j] = low_sums.values[j], parts[threadIdx.x][kPack + j] = high_sums.values[j];
    __syncthreads();
    for (int column = threadIdx.x; column < 2 * half; column += kRopeThreads) {
      const int in_half = column % half, j = in_half % kPack + (column < half ? 0 : kPack);
      float total = 0;
      for (int t = in_half / kPack; t < kRopeThreads; t += a.lanes) total += parts[t][j];
      a.dweight[static_cast<int64_t>(blockIdx.x) * 2 * half + column] = total;
    }
  }
}

template <class T>
HeadRows<T> rows_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin,
                    const at::Tensor& rstd, const at::Tensor& out) {
  HeadRows<T> a{};
  a.x = data<T>(x), a.weight = data<T>(weight), a.out = mutable_data<T>(out);
  a.cos = cos.const_data_ptr<float>(), a.sin = sin.const_data_ptr<float>(), a.rstd = rstd.mutable_data_ptr<float>();
  a.x_stride = x.stride(0), a.out_stride = out.stride(0);
  a.heads = static_cast<int>(x.size(1) / weight.size(0)), a.all = x.size(0) * a.heads;
  a.lanes = static_cast<int>(weight.size(0)) / (2 * Pack<T>::kCount);
  return a;
}

unsigned blocks_over(int64_t heads, int lanes) {
  const int64_t in_block = kRopeThreads / lanes;
  return static_cast<unsigned>((heads + in_block - 1) / in_block);
}

}  // namespace

bool supports_norm_rope(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cos) {
  if (!supports_rows(x) || !supports_rope(x, cos) || weight.scalar_type() != x.scalar_type()) return false;
  const int64_t lanes = weight.size(0) * x.element_size() / 32;
  return cos.size(1) * 2 == weight.size(0) && x.size(1) % weight.size(0) == 0 &&
         lanes * 32 == weight.size(0) * x.element_size() && lanes >= 1 && lanes <= 32 && (lanes & (lanes - 1)) == 0 &&
         weight.is_contiguous() && reinterpret_cast<uint64_t>(weight.const_data_ptr()) % 16 == 0;
}

NormedHeads norm_rope_heads(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                            const at::Tensor& sin) {
  NormedHeads found{at::empty(x.sizes(), x.options()),
                    at::empty({x.size(0), x.size(1) / weight.size(0)}, x.options().dtype(at::kFloat))};
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto a = rows_of<T>(x, weight, cos, sin, found.rstd, found.y);
    a.eps = static_cast<float>(eps);
    norm_rope_kernel<T><<<blocks_over(a.all, a.lanes), kRopeThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(a);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return found;
}

at::Tensor norm_rope_heads_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd,
                                    const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& dx, bool trains) {
  at::Tensor sums;
  with_device_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto a = rows_of<T>(x, weight, cos, sin, rstd, dx);
    a.dy = data<T>(dy), a.dy_stride = dy.stride(0);
    auto blocks = blocks_over(a.all, a.lanes);
    if (trains) {
      blocks = std::min<unsigned>(blocks, kTrainedHeadBlocks);
      sums = at::empty({blocks, weight.size(0)}, x.options().dtype(at::kFloat));
      a.dweight = sums.mutable_data_ptr<float>();
    }
    const auto kernel = trains ? norm_rope_backward_kernel<T, true> : norm_rope_backward_kernel<T, false>;
    kernel<<<blocks, kRopeThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(a);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return trains ? total_of_sums(sums, weight.scalar_type()) : at::Tensor();
}

}  // namespace hone::ops::cuda
