#include "hone/ops/cuda/moe.h"

#include "hone/ops/cuda/with_cuda/silu.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kMoeThreads = 256, kMostChoices = 16, kRowsAtOnce = 4;  // the last: row loads in flight per thread

// Sixteen bytes of a row.
template <class T>
__device__ T* pack_of(T* rows, int64_t row, int packs, int i) {
  return rows + (row * packs + i) * Pack<T>::kCount;
}

// The same 16 bytes of the rows of several choices, loaded together. Choices beyond the token's are zero.
template <class T>
__device__ void ask_for_packs(const T* rows, const int* own, int first, int choices, int packs, int i,
                              Pack<T> (&found)[kRowsAtOnce]) {
#pragma unroll
  for (int k = 0; k < kRowsAtOnce; ++k)
    if (first + k < choices) found[k] = stream_pack(pack_of(rows, own[first + k], packs, i));
}

// One block per token.
template <class T>
__global__ void __launch_bounds__(kMoeThreads)
    combine_kernel(const T* rows, const int* places, const float* weights, T* y, int packs, int choices) {
  constexpr int kPack = Pack<T>::kCount;
  const int64_t token = blockIdx.x;
  const int* own = places + token * choices;
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    PackFloats<T> sum{};
    for (int first = 0; first < choices; first += kRowsAtOnce) {
      Pack<T> asked[kRowsAtOnce];
      ask_for_packs(rows, own, first, choices, packs, i, asked);
#pragma unroll
      for (int k = 0; k < kRowsAtOnce; ++k) {
        if (first + k >= choices) break;
        const float weight = weights ? weights[token * choices + first + k] : 1.0f;
        const auto values = floats_of(asked[k]);
#pragma unroll
        for (int j = 0; j < kPack; ++j) sum.values[j] += weight * values.values[j];
      }
    }
    store_pack(pack_of(y, token, packs, i), rounded_pack(sum));
  }
}

// One block per token.
template <class T>
__global__ void __launch_bounds__(kMoeThreads) copy_kernel(const T* tokens, const int* places, T* rows, int packs, int choices) {
  const int64_t token = blockIdx.x;
  const int* own = places + token * choices;
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    const auto pack = load_pack(pack_of(tokens, token, packs, i));
    for (int k = 0; k < choices; ++k) store_pack(pack_of(rows, own[k], packs, i), pack);
  }
}

template <class T, bool kOfWeights>
__global__ void __launch_bounds__(kMoeThreads)
    combine_backward_kernel(const T* dy, const T* rows, const int* places, const float* weights, T* drows, float* dweights,
                            int packs, int choices) {
  constexpr int kPack = Pack<T>::kCount;
  const int64_t token = blockIdx.x;
  const int* own = places + token * choices;
  float dots[kOfWeights ? kMostChoices : 1] = {};
  for (int i = threadIdx.x; i < packs; i += blockDim.x) {
    const auto grad = floats_of(load_pack(pack_of(dy, token, packs, i)));
#pragma unroll
    for (int first = 0; first < kMostChoices; first += kRowsAtOnce) {
      if (first >= choices) break;
      Pack<T> asked[kRowsAtOnce];
      if constexpr (kOfWeights) ask_for_packs(rows, own, first, choices, packs, i, asked);
#pragma unroll
      for (int k = 0; k < kRowsAtOnce; ++k) {
        if (first + k >= choices) break;
        const float weight = weights[token * choices + first + k];
        PackFloats<T> found;
#pragma unroll
        for (int j = 0; j < kPack; ++j) found.values[j] = weight * grad.values[j];
        store_pack(pack_of(drows, own[first + k], packs, i), rounded_pack(found));
        if constexpr (kOfWeights) {
          const auto values = floats_of(asked[k]);
#pragma unroll
          for (int j = 0; j < kPack; ++j) dots[first + k] += grad.values[j] * values.values[j];
        }
      }
    }
  }
  if constexpr (kOfWeights) {
    __shared__ float parts[kMostChoices][kMoeThreads / 32];
#pragma unroll
    for (int k = 0; k < kMostChoices; ++k)
      if (const float sum = warp_sum(dots[k]); threadIdx.x % 32 == 0) parts[k][threadIdx.x / 32] = sum;
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= choices) return;
    float total = 0;
    for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) total += parts[threadIdx.x][w];
    dweights[token * choices + threadIdx.x] = total;
  }
}

constexpr int kGateWarps = 4;

template <class T>
struct WeightedGate {
  const T* __restrict__ both, * __restrict__ dy;  // dy: null in the forward pass
  const float* __restrict__ weights;
  const int* __restrict__ order;
  T* __restrict__ out;  // [R, w], or the gradient of `both`
  float* __restrict__ dweights;
  int64_t rows;
  int packs;
};

// One warp per row. The weight's gradient is the product of the unweighted row with its gradient.
template <class T, bool kBackward>
__global__ void __launch_bounds__(32 * kGateWarps) weighted_gate_kernel(WeightedGate<T> a) {
  constexpr int kPack = Pack<T>::kCount;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kGateWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= a.rows) return;
  const int choice = a.order[row];
  const float weight = a.weights[choice];
  const T *gates = a.both + row * 2 * a.packs * kPack, *ups = gates + a.packs * kPack;
  float dot = 0;
#pragma unroll 3
  for (int i = lane; i < a.packs; i += 32) {
    const auto gate = floats_of(stream_pack(gates + i * kPack)), up = floats_of(stream_pack(ups + i * kPack));
    const auto silu = silu_of<T>(gate);
    if constexpr (kBackward) {
      auto dy = floats_of(stream_pack(pack_of(a.dy, row, a.packs, i)));
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        dot += dy.values[j] * silu.value.values[j] * up.values[j];
        dy.values[j] *= weight;
      }
      const auto found = swiglu_gradients<T>(gate, up, silu, dy);
      T* to = a.out + row * 2 * a.packs * kPack + i * kPack;
      store_pack(to, rounded_pack(found.gate));
      store_pack(to + a.packs * kPack, rounded_pack(found.up));
    } else {
      auto product = silu.value;
#pragma unroll
      for (int j = 0; j < kPack; ++j) product.values[j] *= weight * up.values[j];
      store_pack(pack_of(a.out, row, a.packs, i), rounded_pack(product));
    }
  }
  if constexpr (kBackward) {
    dot = warp_sum(dot);
    if (lane == 0) a.dweights[choice] = dot;
  }
}

template <class T>
void launch_weighted_gate(WeightedGate<T> a) {
  const auto blocks = static_cast<unsigned>((a.rows + kGateWarps - 1) / kGateWarps);
  const auto kernel = a.dy ? weighted_gate_kernel<T, true> : weighted_gate_kernel<T, false>;
  kernel<<<blocks, 32 * kGateWarps, 0, c10::cuda::getCurrentCUDAStream()>>>(a);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
template <class T>
WeightedGate<T> weighted_gate(const at::Tensor& both, const at::Tensor& weights, const at::Tensor& order, const at::Tensor& out) {
  return {data<T>(both),        nullptr, data<float>(weights), data<int>(order),
          mutable_data<T>(out), nullptr, both.size(0),         static_cast<int>(both.size(1)) / (2 * Pack<T>::kCount)};
}

int threads_for(int packs) { return std::min((packs + 31) / 32 * 32, kMoeThreads); }

}  // namespace

bool supports_combine(const at::Tensor& rows, int64_t choices) {
  auto type = rows.scalar_type();
  return rows.is_cuda() && rows.dim() == 2 && rows.is_contiguous() && (type == at::kHalf || type == at::kBFloat16) &&
         rows.size(1) % 8 == 0 && rows.numel() > 0 && choices <= kMostChoices;
}

at::Tensor combine_rows(const at::Tensor& rows, const at::Tensor& places, const at::Tensor& weights_tk, int64_t choices) {
  const auto tokens = rows.size(0) / choices;
  auto y = at::empty({tokens, rows.size(1)}, rows.options());
  auto weights = weights_tk.defined() ? weights_tk.to(at::kFloat).contiguous() : at::Tensor();
  with_device_type(rows.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(rows.size(1)) / Pack<T>::kCount;
    combine_kernel<T><<<static_cast<unsigned>(tokens), threads_for(packs), 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(rows), data<int>(places), weights.defined() ? data<float>(weights) : nullptr, mutable_data<T>(y), packs,
        static_cast<int>(choices));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return y;
}

at::Tensor copy_rows(const at::Tensor& tokens, const at::Tensor& places, int64_t choices) {
  auto rows = at::empty({tokens.size(0) * choices, tokens.size(1)}, tokens.options());
  with_device_type(tokens.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(tokens.size(1)) / Pack<T>::kCount;
    copy_kernel<T><<<static_cast<unsigned>(tokens.size(0)), threads_for(packs), 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(tokens), data<int>(places), mutable_data<T>(rows), packs, static_cast<int>(choices));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return rows;
}

bool supports_weighted_swiglu(const at::Tensor& both) {
  const auto type = both.scalar_type();
  return both.is_cuda() && both.dim() == 2 && both.is_contiguous() && both.numel() > 0 &&
         (type == at::kHalf || type == at::kBFloat16) && both.size(1) % 16 == 0;
}

at::Tensor weighted_swiglu(const at::Tensor& both, const at::Tensor& weights, const at::Tensor& order) {
  auto y = at::empty({both.size(0), both.size(1) / 2}, both.options());
  with_device_type(both.scalar_type(), [&](auto type) {
    using T = decltype(type);
    launch_weighted_gate(weighted_gate<T>(both, weights, order, y));
  });
  return y;
}

WeightedSwigluGradients weighted_swiglu_backward(const at::Tensor& dy, const at::Tensor& both, const at::Tensor& weights,
                                                 const at::Tensor& order) {
  const bool drops = both.size(0) < weights.numel();  // choices that were dropped have no row
  WeightedSwigluGradients found{at::empty_like(both), drops ? at::zeros_like(weights) : at::empty_like(weights)};
  with_device_type(both.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto a = weighted_gate<T>(both, weights, order, found.both_rw);
    a.dy = data<T>(dy), a.dweights = found.weights_tk.mutable_data_ptr<float>();
    launch_weighted_gate(a);
  });
  return found;
}

CombineGradients combine_rows_backward(const at::Tensor& dy_th, const at::Tensor& rows, const at::Tensor& places,
                                       const at::Tensor& weights_tk, bool of_weights) {
  auto dy = dy_th.contiguous(), weights = weights_tk.to(at::kFloat).contiguous();
  CombineGradients found{at::empty_like(rows), of_weights ? at::empty_like(weights) : at::Tensor()};
  with_device_type(rows.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const int packs = static_cast<int>(rows.size(1)) / Pack<T>::kCount;
    auto kernel = of_weights ? combine_backward_kernel<T, true> : combine_backward_kernel<T, false>;
    kernel<<<static_cast<unsigned>(dy.size(0)), threads_for(packs), 0, c10::cuda::getCurrentCUDAStream()>>>(
        data<T>(dy), data<T>(rows), data<int>(places), data<float>(weights), mutable_data<T>(found.rows_rh),
        of_weights ? mutable_data<float>(found.weights_tk) : nullptr, packs, static_cast<int>(weights.size(1)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return found;
}

}  // namespace hone::ops::cuda
