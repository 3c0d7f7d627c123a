#include <cuda_fp8.h>

#include "hone/ops/cuda/float8.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

using T = __nv_bfloat16;
constexpr float kLargest = 448.0f, kLeast = 1e-12f;  // e4m3's; torchao's, against rows of zeros
constexpr int kMostFloat8Packs = 10, kMostFloat8Threads = 1024;
static_assert(kMostFloat8Packs * kMostFloat8Threads * 8 == kWidestFloat8);

// One block per row, which stays in registers between the maximum and the rounding.
template <int kPacks, int kThreads>
__global__ void __launch_bounds__(kThreads)
    float8_rows_kernel(const T* from, uint2* to, float* scales, int packs, int64_t stride) {
  __shared__ float of_warps[kThreads / 32];
  const T* row = from + blockIdx.x * stride;
  Pack<T> own[kPacks];
  float largest = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int pack = threadIdx.x + k * kThreads;
    if (pack < packs) own[k] = stream_pack(row + pack * Pack<T>::kCount);
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (static_cast<int>(threadIdx.x) + k * kThreads >= packs) break;
    const auto values = floats_of(own[k]);
#pragma unroll
    for (int j = 0; j < Pack<T>::kCount; ++j) largest = fmaxf(largest, fabsf(values.values[j]));
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) largest = fmaxf(largest, of_warps[warp]);
  const float scale = fmaxf(largest, kLeast) / kLargest, factor = 1.0f / scale;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  uint2* out = to + static_cast<int64_t>(blockIdx.x) * packs;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int pack = threadIdx.x + k * kThreads;
    if (pack >= packs) break;
    const auto values = floats_of(own[k]);
    alignas(8) __nv_fp8x2_storage_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      pairs[j] = __nv_cvt_float2_to_fp8x2(make_float2(values.values[2 * j] * factor, values.values[2 * j + 1] * factor),
                                          __NV_SATFINITE, __NV_E4M3);
    out[pack] = *reinterpret_cast<const uint2*>(pairs);
  }
}

template <int kPacks, int kThreads>
void launch(const at::Tensor& x, const Float8Rows& rows, int packs) {
  float8_rows_kernel<kPacks, kThreads><<<static_cast<unsigned>(x.size(0)), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      data<T>(x), static_cast<uint2*>(rows.values.mutable_data_ptr()), rows.scales.mutable_data_ptr<float>(), packs, x.stride(0));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void launch_by_width(const at::Tensor& x, const Float8Rows& rows) {
  const int packs = static_cast<int>(x.size(1) / Pack<T>::kCount);
  if (packs <= 256) return launch<1, 256>(x, rows, packs);
  if (packs <= 512) return launch<2, 256>(x, rows, packs);
  if (packs <= 768) return launch<3, 256>(x, rows, packs);
  if (packs <= 1024) return launch<4, 256>(x, rows, packs);
  if (packs <= 2560) return launch<5, 512>(x, rows, packs);
  if (packs <= 5120) return launch<5, 1024>(x, rows, packs);
  launch<kMostFloat8Packs, kMostFloat8Threads>(x, rows, packs);
}

}  // namespace

bool supports_float8_rows(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.dim() == 2 && x.size(0) > 0 && x.stride(1) == 1 &&
         x.size(1) % 8 == 0 && x.stride(0) % 8 == 0 && x.size(1) <= kWidestFloat8 &&
         reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

Float8Rows float8_rows(const at::Tensor& x) {
  Float8Rows rows{at::empty(x.sizes(), x.options().dtype(at::kFloat8_e4m3fn)),
                  at::empty({x.size(0), 1}, x.options().dtype(at::kFloat))};
  launch_by_width(x, rows);
  return rows;
}

}  // namespace hone::ops::cuda
