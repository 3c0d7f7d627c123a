#include "hone/ops/cuda/moe_routing.h"

#include <limits>

#include "hone/ops/cuda/with_cuda/argmax_key.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kRouteWarps = 8, kMostOfLane = 16, kMostRouted = 16;
constexpr int kSortChunk = 1024, kMostSorted = 1024;  // choices per block; experts

template <class T>
struct RouteArguments {
  const T* logits;
  int64_t* experts;
  float *weights, *logsumexp;
  const float* dweights;  // of the backward pass
  T* dlogits;
  int64_t tokens;
  int count, choices;
  bool normalized;
};

// One warp per token; lane l has experts l, l + 32, ...
template <class T, int kOfLane>
__device__ inline void load_logits(const RouteArguments<T>& a, int64_t token, int lane, float (&own)[kOfLane]) {
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const int expert = lane + 32 * i;
    own[i] = expert < a.count ? to_float(a.logits[token * a.count + expert]) : -INFINITY;
  }
}

template <class T, int kOfLane>
__global__ void __launch_bounds__(32 * kRouteWarps) route_kernel(RouteArguments<T> a) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kRouteWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (token >= a.tokens) return;
  float own[kOfLane];
  load_logits<T, kOfLane>(a, token, lane, own);
  float largest = -INFINITY, sum = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) largest = fmaxf(largest, own[i]);
  largest = warp_max(largest);
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) sum += __expf(own[i] - largest);
  const float logsumexp = largest + __logf(warp_sum(sum));
  ArgmaxKey chosen = 0;  // of the choice that this lane writes
  unsigned taken = 0;
  for (int j = 0; j < a.choices; ++j) {
    ArgmaxKey best = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int expert = lane + 32 * i;
      if (expert < a.count && !(taken >> i & 1)) best = max(best, argmax_key(isnan(own[i]) ? -INFINITY : own[i], expert));
    }
    best = warp_max(best);
    if (index_of(best) % 32 == lane) taken |= 1u << index_of(best) / 32;
    if (lane == j) chosen = best;
  }
  float weight = lane < a.choices ? __expf(value_of(chosen) - logsumexp) : 0;  // not a number if a logit is not
  if (a.normalized) weight /= warp_sum(weight);
  if (lane == 0) a.logsumexp[token] = logsumexp;
  if (lane >= a.choices) return;
  a.experts[token * a.choices + lane] = index_of(chosen);
  a.weights[token * a.choices + lane] = weight;
}

template <class T, int kOfLane>
__global__ void __launch_bounds__(32 * kRouteWarps) route_backward_kernel(RouteArguments<T> a) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kRouteWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (token >= a.tokens) return;
  const int64_t place = token * a.choices + lane;
  const bool chooses = lane < a.choices;
  const int expert = chooses ? static_cast<int>(a.experts[place]) : 0;
  const float weight = chooses ? a.weights[place] : 0, grad = chooses ? a.dweights[place] : 0;
  const float dot = warp_sum(weight * grad), own_term = a.normalized ? weight * (grad - dot) : weight * grad;
  float found[kOfLane] = {};
  if (!a.normalized) {
    load_logits<T, kOfLane>(a, token, lane, found);
    const float logsumexp = a.logsumexp[token];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) found[i] = -dot * __expf(found[i] - logsumexp);
  }
  for (int j = 0; j < a.choices; ++j) {
    const int at = __shfl_sync(0xffffffffu, expert, j);
    const float term = __shfl_sync(0xffffffffu, own_term, j);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      if (at == lane + 32 * i) found[i] += term;
  }
#pragma unroll
  for (int i = 0; i < kOfLane; ++i)
    if (const int e = lane + 32 * i; e < a.count) a.dlogits[token * a.count + e] = from_float<T>(found[i]);
}

// Calls body with the number of experts per lane.
template <class Body>
void with_lane_count(int experts, Body body) {
  if (experts <= 32) return body(std::integral_constant<int, 1>{});
  if (experts <= 128) return body(std::integral_constant<int, 4>{});
  body(std::integral_constant<int, kMostOfLane>{});
}

template <class T>
RouteArguments<T> route_arguments(const at::Tensor& logits, const Routed& routed, bool normalized) {
  RouteArguments<T> a{};
  a.logits = data<T>(logits), a.experts = routed.experts_tk.mutable_data_ptr<int64_t>();
  a.weights = routed.weights_tk.mutable_data_ptr<float>(), a.logsumexp = routed.logsumexp_t.mutable_data_ptr<float>();
  a.tokens = logits.size(0), a.count = static_cast<int>(logits.size(1));
  a.choices = static_cast<int>(routed.experts_tk.size(1)), a.normalized = normalized;
  return a;
}
unsigned route_blocks(int64_t tokens) { return static_cast<unsigned>((tokens + kRouteWarps - 1) / kRouteWarps); }

// Counts of every chunk: [chunks, experts].
__global__ void __launch_bounds__(kSortChunk) count_kernel(const int64_t* choices, int64_t total, int* counts, int experts) {
  __shared__ int own[kMostSorted];
  for (int e = threadIdx.x; e < experts; e += kSortChunk) own[e] = 0;
  __syncthreads();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortChunk + threadIdx.x;
  if (i < total) atomicAdd(&own[choices[i]], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += kSortChunk) counts[static_cast<int64_t>(blockIdx.x) * experts + e] = own[e];
}

// Counts become the first row of each chunk's choices of each expert. One block, one thread per expert.
__global__ void __launch_bounds__(kMostSorted) begin_kernel(int* counts, int64_t* of_expert, int chunks, int experts) {
  __shared__ int begins[kMostSorted];
  const int e = threadIdx.x;
  int total = 0;
  if (e < experts)
    for (int chunk = 0; chunk < chunks; ++chunk) total += counts[static_cast<int64_t>(chunk) * experts + e];
  begins[e] = total;
  __syncthreads();
  for (int offset = 1; offset < kMostSorted; offset *= 2) {  // inclusive sums
    const int before = e >= offset ? begins[e - offset] : 0;
    __syncthreads();
    begins[e] += before;
    __syncthreads();
  }
  if (e >= experts) return;
  of_expert[e] = total;
  int at = begins[e] - total;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    int& count = counts[static_cast<int64_t>(chunk) * experts + e];
    const int own = count;
    count = at;
    at += own;
  }
}

// A thread per expert reads the chunk's choices in their order.
__global__ void place_kernel(const int64_t* choices, int64_t total, const int* begins, int* order, int* places, int experts) {
  __shared__ int chunk[kSortChunk];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSortChunk;
  const int count = static_cast<int>(min(static_cast<int64_t>(kSortChunk), total - first));
  for (int i = threadIdx.x; i < count; i += blockDim.x) chunk[i] = static_cast<int>(choices[first + i]);
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += blockDim.x) {
    int row = begins[static_cast<int64_t>(blockIdx.x) * experts + e];
    for (int i = 0; i < count; ++i)
      if (chunk[i] == e) {
        places[first + i] = row;
        order[row++] = static_cast<int>(first) + i;
      }
  }
}

}  // namespace

bool supports_routing(const at::Tensor& logits, int64_t choices) {
  const auto type = logits.scalar_type();
  return logits.is_cuda() && logits.dim() == 2 && logits.is_contiguous() && logits.numel() > 0 &&
         (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) && logits.size(1) <= 32 * kMostOfLane &&
         choices <= kMostRouted && choices <= logits.size(1);
}

Routed route_top_k(const at::Tensor& logits, int64_t choices, bool normalized) {
  const auto floats = logits.options().dtype(at::kFloat);
  Routed found{at::empty({logits.size(0), choices}, logits.options().dtype(at::kLong)),
               at::empty({logits.size(0), choices}, floats), at::empty({logits.size(0)}, floats)};
  with_device_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto a = route_arguments<T>(logits, found, normalized);
    with_lane_count(a.count, [&](auto of_lane) {
      route_kernel<T, of_lane()><<<route_blocks(a.tokens), 32 * kRouteWarps, 0, c10::cuda::getCurrentCUDAStream()>>>(a);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
  return found;
}

at::Tensor route_top_k_backward(const at::Tensor& dweights, const at::Tensor& logits, const Routed& routed, bool normalized) {
  auto dlogits = at::empty_like(logits);
  with_device_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto a = route_arguments<T>(logits, routed, normalized);
    a.dweights = dweights.const_data_ptr<float>(), a.dlogits = mutable_data<T>(dlogits);
    with_lane_count(a.count, [&](auto of_lane) {
      route_backward_kernel<T, of_lane()><<<route_blocks(a.tokens), 32 * kRouteWarps, 0, c10::cuda::getCurrentCUDAStream()>>>(a);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
  return dlogits;
}

bool supports_expert_sort(const at::Tensor& experts_tk, int64_t experts) {
  return experts_tk.is_cuda() && experts_tk.is_contiguous() && experts_tk.scalar_type() == at::kLong && experts_tk.numel() > 0 &&
         experts_tk.numel() <= std::numeric_limits<int>::max() && experts <= kMostSorted;
}

ExpertOrder sort_by_expert(const at::Tensor& experts_tk, int64_t experts) {
  const int64_t total = experts_tk.numel(), chunks = (total + kSortChunk - 1) / kSortChunk;
  const auto ints = experts_tk.options().dtype(at::kInt);
  ExpertOrder found{at::empty({total}, ints), at::empty({total}, ints), at::empty({experts}, experts_tk.options())};
  auto counts = at::empty({chunks, experts}, ints);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const auto* choices = experts_tk.const_data_ptr<int64_t>();
  auto* begins = counts.mutable_data_ptr<int>();
  const int count = static_cast<int>(experts);
  count_kernel<<<static_cast<unsigned>(chunks), kSortChunk, 0, stream>>>(choices, total, begins, count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  begin_kernel<<<1, kMostSorted, 0, stream>>>(begins, found.counts_e.mutable_data_ptr<int64_t>(), static_cast<int>(chunks),
                                              count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const unsigned threads = static_cast<unsigned>(std::min((experts + 31) / 32 * 32, int64_t{256}));
  place_kernel<<<static_cast<unsigned>(chunks), threads, 0, stream>>>(
      choices, total, begins, found.order_r.mutable_data_ptr<int>(), found.places_r.mutable_data_ptr<int>(), count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return found;
}

}  // namespace hone::ops::cuda
