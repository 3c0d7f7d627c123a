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
  const float* c = cos + row * half + in_half * kPack;
  const float* s = sin + row * half + in_half * kPack;
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const float a = to_float(first.values[j]), b = to_float(second.values[j]), turn = direction * s[j];
    first.values[j] = from_float<T>(a * c[j] - b * turn);
    second.values[j] = from_float<T>(b * c[j] + a * turn);
  }
  store_pack(to + row * to_stride + place, first);
  store_pack(to + row * to_stride + place + half, second);
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
