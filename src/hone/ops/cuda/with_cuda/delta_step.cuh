// One token of a sequence in a gated delta net: convolution and SiLU, norms, the rule on the sequence's slot, norm and gate of
// what it gives. A block has the value heads of one key head, so that no other block reads the convolution's inputs that it moves.
#pragma once
#include "hone/ops/cuda/with_cuda/delta_heads.cuh"
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"

namespace hone::ops::cuda::delta {

constexpr int kStepThreads = 512, kStepWarps = kStepThreads / 32, kStepRows = kHeadDim / kStepWarps, kMostShared = 8;

// A parameter of the model's type or of float32.
template <class T>
struct Numbers {
  const void* at;
  bool is_float;
  __device__ float operator[](int i) const {
    return is_float ? static_cast<const float*>(at)[i] : to_float(static_cast<const T*>(at)[i]);
  }
};

template <class T>
struct StepArguments {
  const T *qkv, *z, *b, *a;
  int64_t qkv_stride, z_stride, b_stride, a_stride;
  const T* conv;  // [channels, K]
  Numbers<T> dt_bias, a_log, norm;
  float eps, query_scale;
  T* inputs;             // [slots, K - 1, channels]
  float* states;         // [slots, heads, 128, 128]
  const int64_t* slots;  // of each row; -1: the row pads the batch
  T* y;                  // [rows, heads * 128]
  int key_heads, heads;
};

__device__ inline float silu(float x) { return x / (1.0f + __expf(-x)); }

template <class T, int K>
__global__ void __launch_bounds__(kStepThreads) delta_step_kernel(StepArguments<T> a) {
  __shared__ float mixed[(2 + kMostShared) * kHeadDim], decay[kMostShared], beta[kMostShared];
  __shared__ float4 parts[kStepWarps][kHeadDim / 4];
  const int key_head = blockIdx.x, row = blockIdx.y, shared = a.heads / a.key_heads, keys = a.key_heads * kHeadDim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, channels = 2 * keys + a.heads * kHeadDim;
  let_next_begin();
  wait_for_previous();
  const int64_t slot = a.slots[row];
  T* to = a.y + (static_cast<int64_t>(row) * a.heads + key_head * shared) * kHeadDim;
  if (slot < 0) {
    for (int i = threadIdx.x; i < shared * kHeadDim; i += kStepThreads) to[i] = from_float<T>(0.0f);
    return;
  }
  // Of value head h: rows warp * kStepRows …, four columns of each.
  auto place = [&](int h) {
    return reinterpret_cast<float4*>(a.states + ((slot * a.heads + key_head * shared + h) * kHeadDim + warp * kStepRows) * kHeadDim) +
           lane;
  };
  float4 state[kStepRows];
#pragma unroll
  for (int r = 0; r < kStepRows; ++r) state[r] = place(0)[r * (kHeadDim / 4)];
  for (int i = threadIdx.x; i < (2 + shared) * kHeadDim; i += kStepThreads) {
    const int part = min(i / kHeadDim, 2);  // queries, keys or values
    const int channel = part * keys + (part < 2 ? key_head : key_head * shared) * kHeadDim + i - part * kHeadDim;
    T* inputs = a.inputs + slot * (K - 1) * channels + channel;
    const T* taps = a.conv + static_cast<int64_t>(channel) * K;
    T window[K];
#pragma unroll
    for (int j = 0; j < K - 1; ++j) window[j] = inputs[static_cast<int64_t>(j) * channels];
    window[K - 1] = a.qkv[row * a.qkv_stride + channel];
    float sum = 0;
#pragma unroll
    for (int j = 0; j < K; ++j) sum += to_float(taps[j]) * to_float(window[j]);
#pragma unroll
    for (int j = 0; j < K - 1; ++j) inputs[static_cast<int64_t>(j) * channels] = window[j + 1];
    mixed[i] = silu(sum);
  }
  if (static_cast<int>(threadIdx.x) < shared) {
    const int head = key_head * shared + threadIdx.x;
    const float x = to_float(a.a[row * a.a_stride + head]) + a.dt_bias[head];
    const float softplus = x > 20.0f ? x : log1pf(__expf(x));
    decay[threadIdx.x] = __expf(-__expf(a.a_log[head]) * softplus);
    beta[threadIdx.x] = 1.0f / (1.0f + __expf(-to_float(a.b[row * a.b_stride + head])));
  }
  __syncthreads();
  if (warp < 2) {
    auto* head = reinterpret_cast<float4*>(mixed + warp * kHeadDim);
    const float4 own = head[lane];
    head[lane] = scaled(own, rsqrtf(warp_sum(dot(own, own)) + kNormEps) * (warp == 0 ? a.query_scale : 1.0f));
  }
  __syncthreads();
  const float *query = mixed + warp * kStepRows, *key = mixed + kHeadDim + warp * kStepRows;
  auto add = [](float4& sum, const float4& x, float by) { sum.x += x.x * by, sum.y += x.y * by, sum.z += x.z * by, sum.w += x.w * by; };
  auto total = [&] {
    float4 sum = parts[0][lane];
#pragma unroll
    for (int w = 1; w < kStepWarps; ++w) add(sum, parts[w][lane], 1.0f);
    return sum;
  };
  for (int h = 0; h < shared; ++h) {
    float4 read = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int r = 0; r < kStepRows; ++r) {
      state[r] = scaled(state[r], decay[h]);
      add(read, state[r], key[r]);
    }
    parts[warp][lane] = read;
    __syncthreads();
    const float4 known = total(), value = reinterpret_cast<const float4*>(mixed + (2 + h) * kHeadDim)[lane];
    const float4 missing = scaled(make_float4(value.x - known.x, value.y - known.y, value.z - known.z, value.w - known.w), beta[h]);
    float4 found = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int r = 0; r < kStepRows; ++r) {
      add(state[r], missing, key[r]);
      add(found, state[r], query[r]);
      place(h)[r * (kHeadDim / 4)] = state[r];
    }
    if (h + 1 < shared)
#pragma unroll
      for (int r = 0; r < kStepRows; ++r) state[r] = place(h + 1)[r * (kHeadDim / 4)];
    __syncthreads();  // what the keys found has been read
    parts[warp][lane] = found;
    __syncthreads();
    if (warp == 0) {
      const float4 output = total();
      const float inverse = rsqrtf(warp_sum(dot(output, output)) / kHeadDim + a.eps);
      const float4 z = load_lane(a.z + row * a.z_stride + (key_head * shared + h) * kHeadDim);
      auto weight = [&](int j) { return a.norm[lane * 4 + j] * inverse; };
      store_lane(to + h * kHeadDim, make_float4(output.x * weight(0) * silu(z.x), output.y * weight(1) * silu(z.y),
                                                output.z * weight(2) * silu(z.z), output.w * weight(3) * silu(z.w)));
    }
    __syncthreads();
  }
}

}  // namespace hone::ops::cuda::delta
