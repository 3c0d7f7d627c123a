#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kRowThreads = 128;

bool is_served_type(at::ScalarType type) { return type == at::kFloat || type == at::kHalf || type == at::kBFloat16; }
int packs_in(const at::Tensor& x) { return static_cast<int>(x.size(1) * x.element_size() / 16); }
dim3 grid_over(int packs, int64_t rows) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((packs + kRowThreads - 1) / kRowThreads)};
}

// Rotates a pack of a head's first half together with that of the second.
template <class T>
__device__ inline void rotate_packs(Pack<T>& first, Pack<T>& second, const float* cos, const float* sin, float direction) {
  constexpr int kPack = Pack<T>::kCount;
  alignas(16) float c[kPack], s[kPack];
#pragma unroll
  for (int j = 0; j < kPack; j += 4) {
    *reinterpret_cast<float4*>(c + j) = *reinterpret_cast<const float4*>(cos + j);
    *reinterpret_cast<float4*>(s + j) = *reinterpret_cast<const float4*>(sin + j);
  }
  auto upper = floats_of(first), lower = floats_of(second);
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const float a = upper.values[j], b = lower.values[j], sine = direction * s[j];
    upper.values[j] = a * c[j] - b * sine, lower.values[j] = b * c[j] + a * sine;
  }
  first = rounded_pack(upper), second = rounded_pack(lower);
}

// One thread per pack of a head's first half, rotated together with the pack of the second half.
template <class T>
__global__ void rope_rows_kernel(const T* from, const float* cos, const float* sin, T* to, int packs, int half_packs,
                                 float direction, int64_t from_stride, int64_t to_stride) {
  constexpr int kPack = Pack<T>::kCount;
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  const int64_t row = blockIdx.x;
  if (i >= packs) return;
  const int in_half = i % half_packs, half = half_packs * kPack, place = i / half_packs * 2 * half + in_half * kPack;
  auto first = load_pack(from + row * from_stride + place), second = load_pack(from + row * from_stride + place + half);
  rotate_packs(first, second, cos + row * half + in_half * kPack, sin + row * half + in_half * kPack, direction);
  store_pack(to + row * to_stride + place, first);
  store_pack(to + row * to_stride + place + half, second);
}

// Parts of the rows of `to`, one after the other: the last is copied, the others are rotated.
template <class T>
struct RopeParts {
  static constexpr int kMost = 3;
  const T* from[kMost];
  int64_t stride[kMost];
  int begin[kMost + 1];  // in pairs of packs
  int last;              // the copied part
  const float *cos, *sin;
  T* to;
  int half_packs;
  float direction;
};

// One thread per pair of packs.
template <class T>
__global__ void __launch_bounds__(kRowThreads) rope_parts_kernel(const __grid_constant__ RopeParts<T> a) {
  constexpr int kPack = Pack<T>::kCount;
  const int i = blockIdx.y * blockDim.x + threadIdx.x;
  const int64_t row = blockIdx.x;
  if (i >= a.begin[a.last + 1]) return;
  int part = 0;
  while (i >= a.begin[part + 1]) ++part;
  const int own = i - a.begin[part], half = part == a.last ? kPack : a.half_packs * kPack, in_half = own % a.half_packs,
            place = part == a.last ? own * 2 * kPack : own / a.half_packs * 2 * half + in_half * kPack;
  const T* from = a.from[part] + row * a.stride[part] + place;
  T* to = a.to + (row * a.begin[a.last + 1] + a.begin[part]) * 2 * kPack + place;
  auto first = load_pack(from), second = load_pack(from + half);
  if (part != a.last)
    rotate_packs(first, second, a.cos + row * half + in_half * kPack, a.sin + row * half + in_half * kPack, a.direction);
  store_pack(to, first), store_pack(to + half, second);
}

struct Rounding {
  static constexpr int kMost = 16;
  const float* from[kMost];
  float factor[kMost];
  int64_t begin[kMost + 1];  // in the result
};

template <class T>
__global__ void round_kernel(Rounding parts, T* to) {
  const float* from = parts.from[blockIdx.y];
  const float factor = parts.factor[blockIdx.y];
  const int64_t begin = parts.begin[blockIdx.y], count = parts.begin[blockIdx.y + 1] - begin;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    to[begin + i] = from_float<T>(from[i] * factor);
}

}  // namespace

bool supports_rows(const at::Tensor& x) {
  if (!x.is_cuda() || !is_served_type(x.scalar_type()) || x.dim() != 2 || x.numel() == 0) return false;
  const int64_t bytes = x.element_size(), address = reinterpret_cast<int64_t>(x.const_data_ptr());
  return x.stride(1) == 1 && x.size(1) * bytes % 16 == 0 && x.stride(0) * bytes % 16 == 0 && address % 16 == 0;
}

bool supports_rope(const at::Tensor& x, const at::Tensor& cos) {
  return supports_rows(x) && cos.size(1) * x.element_size() % 16 == 0 && cos.is_contiguous() && cos.scalar_type() == at::kFloat;
}

void rope_rows(const at::Tensor& from, const at::Tensor& cos, const at::Tensor& sin, double direction, const at::Tensor& to) {
  with_device_type(from.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = packs_in(from) / 2, half_packs = static_cast<int>(cos.size(1)) / Pack<T>::kCount;
    rope_rows_kernel<T><<<grid_over(packs, from.size(0)), kRowThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(from), cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), mutable_data<T>(to), packs, half_packs,
        static_cast<float>(direction), from.stride(0), to.stride(0));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

void rope_parts(const TensorList& from, const at::Tensor& cos, const at::Tensor& sin, double direction, const at::Tensor& to) {
  with_device_type(to.scalar_type(), [&](auto type) {
    using T = decltype(type);
    RopeParts<T> parts{};
    TORCH_CHECK(from.size() <= parts.kMost && to.is_contiguous(), "at most three parts of contiguous rows");
    parts.last = static_cast<int>(from.size()) - 1;
    for (size_t i = 0; i < from.size(); ++i) {
      parts.from[i] = data<T>(from[i]), parts.stride[i] = from[i].stride(0);
      parts.begin[i + 1] = parts.begin[i] + packs_in(from[i]) / 2;
    }
    parts.cos = cos.const_data_ptr<float>(), parts.sin = sin.const_data_ptr<float>(), parts.to = mutable_data<T>(to);
    parts.half_packs = static_cast<int>(cos.size(1)) / Pack<T>::kCount, parts.direction = static_cast<float>(direction);
    rope_parts_kernel<T><<<grid_over(packs_in(to) / 2, to.size(0)), kRowThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(parts);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

at::Tensor rounded_end_to_end(const TensorList& matrices, const std::vector<double>& factors, at::ScalarType type) {
  int64_t total = 0;
  for (const auto& matrix : matrices) total += matrix.numel();
  auto to = at::empty({total}, matrices.front().options().dtype(type).requires_grad(false));
  int64_t written = 0;
  for (size_t first = 0; first < matrices.size(); first += Rounding::kMost) {
    const size_t count = std::min<size_t>(Rounding::kMost, matrices.size() - first);
    Rounding parts{};
    TensorList kept;  // contiguous copies, alive until the launch
    int64_t largest = 0;
    for (size_t i = 0; i < count; ++i) {
      kept.push_back(matrices[first + i].contiguous());
      parts.from[i] = kept.back().const_data_ptr<float>();
      parts.factor[i] = static_cast<float>(factors[first + i]);
      parts.begin[i] = written;
      written += kept.back().numel();
      parts.begin[i + 1] = written;
      largest = std::max(largest, kept.back().numel());
    }
    dim3 grid(static_cast<unsigned>(std::min<int64_t>((largest + 255) / 256, 64)), static_cast<unsigned>(count));
    with_device_type(type, [&](auto number) {
      using T = decltype(number);
      round_kernel<T><<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(parts, mutable_data<T>(to));
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  }
  return to;
}

}  // namespace hone::ops::cuda
