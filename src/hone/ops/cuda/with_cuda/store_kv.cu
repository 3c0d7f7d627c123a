// What a step adds to the KV cache, from keys and values or from a joint projection.
#include "hone/ops/cuda/paged_attention.h"
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"
#include "hone/ops/cuda/with_cuda/kv_types.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kStoreThreads = 128;

// A number as the cache stores it.
template <class C, class T>
__device__ inline C stored(T value) {
  if constexpr (std::is_same_v<C, T>)
    return value;
  else
    return C::rounded(to_float(value));
}

template <class T, class C>
__global__ void store_kernel(const T* k, const T* v, C* keys, C* values, const int* slots, int kv_heads, int block_size,
                             int head_dim, int64_t k_stride, int64_t v_stride) {
  const int slot = slots[blockIdx.x];
  if (slot < 0) return;
  const int width = kv_heads * head_dim, block = slot / block_size, offset = slot % block_size;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    int64_t to = ((static_cast<int64_t>(block) * kv_heads + i / head_dim) * block_size + offset) * head_dim + i % head_dim;
    keys[to] = stored<C>(k[blockIdx.x * k_stride + i]);
    values[to] = stored<C>(v[blockIdx.x * v_stride + i]);
  }
}

struct JoinedShape {
  int heads, kv_heads, head_dim, block_size;
  float eps;
};

// Adjacent elements of a half of a head.
constexpr int kQuad = 4;
template <class T>
struct alignas(kQuad * sizeof(T)) Quad {
  T values[kQuad];
};
template <class T>
__device__ inline Quad<T> load_quad(const T* from) {
  return *reinterpret_cast<const Quad<T>*>(from);
}

// A number as attention reads it from the cache.
template <class T, class C>
__device__ inline T read_back(C value) {
  if constexpr (std::is_same_v<C, T>)
    return value;
  else
    return from_float<T>(value.value());
}

// Norm and rotation of queries and keys of one token, values as they are. A thread has four elements of each half of a head. Of
// prompts it has several heads: all are loaded before the first is used, and rotated by the same angles. `k` and `v`, where not
// null, get what attention will read from the cache.
constexpr int kHeadsOfPrompts = 4, kPromptRows = 1024;  // this many rows fill the device
template <class T, class C, int kHeadsOfThread>
__global__ void __launch_bounds__(kStoreThreads)
    qk_norm_rope_store_kernel(const T* qkv, const T* q_norm, const T* k_norm, const float* cos, const float* sin,
                              const int* slots, T* q, T* k, T* v, C* keys, C* values, JoinedShape shape) {
  const int token = blockIdx.x, half = shape.head_dim / 2, lanes = half / kQuad, groups = kStoreThreads / lanes;
  const int group = threadIdx.x / lanes, at = threadIdx.x % lanes * kQuad, all_heads = shape.heads + 2 * shape.kv_heads;
  let_next_begin();
  wait_for_previous();
  const T* rows = qkv + static_cast<int64_t>(token) * all_heads * shape.head_dim + at;
  const int slot = slots[token];
  const auto c = load_quad(cos + token * half + at), s = load_quad(sin + token * half + at);
  const int64_t row = static_cast<int64_t>(slot / shape.block_size) * shape.kv_heads * shape.block_size + slot % shape.block_size;
  const int64_t place = row * shape.head_dim + at;
  const int each = groups * kHeadsOfThread;
  for (int first = blockIdx.y * each + group; first < all_heads + group; first += each * gridDim.y) {
    Quad<T> low[kHeadsOfThread], high[kHeadsOfThread];
#pragma unroll
    for (int i = 0; i < kHeadsOfThread; ++i) {
      const int head = min(first + i * groups, all_heads - 1);
      low[i] = load_quad(rows + head * shape.head_dim), high[i] = load_quad(rows + head * shape.head_dim + half);
    }
#pragma unroll
    for (int i = 0; i < kHeadsOfThread; ++i) {
      const int head = first + i * groups;
      const bool is_query = head < shape.heads, is_value = head >= shape.heads + shape.kv_heads;
      const T* norm = is_value ? nullptr : is_query ? q_norm : k_norm;
      if (q_norm || k_norm) {  // all threads of a warp take part in the sum
        float sum = 0;
#pragma unroll
        for (int j = 0; j < kQuad; ++j) {
          const float x = to_float(low[i].values[j]), y = to_float(high[i].values[j]);
          sum += x * x + y * y;
        }
        for (int offset = lanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        if (norm) {
          const float inverse = rsqrtf(sum / shape.head_dim + shape.eps);
          const auto low_weight = load_quad(norm + at), high_weight = load_quad(norm + at + half);
          // Rounded to the type before the weight, as transformers does.
          auto normed = [&](T value, T weight) {
            return from_float<T>(to_float(from_float<T>(to_float(value) * inverse)) * to_float(weight));
          };
#pragma unroll
          for (int j = 0; j < kQuad; ++j) {
            low[i].values[j] = normed(low[i].values[j], low_weight.values[j]);
            high[i].values[j] = normed(high[i].values[j], high_weight.values[j]);
          }
        }
      }
      if (head >= all_heads) continue;
      if (!is_value) {
#pragma unroll
        for (int j = 0; j < kQuad; ++j) {
          const float x = to_float(low[i].values[j]), y = to_float(high[i].values[j]);
          low[i].values[j] = from_float<T>(x * c.values[j] - y * s.values[j]);
          high[i].values[j] = from_float<T>(y * c.values[j] + x * s.values[j]);
        }
      }
      auto store = [&](auto* to, const auto& lower, const auto& upper) {
        using Values = std::remove_cvref_t<decltype(lower)>;
        *reinterpret_cast<Values*>(to) = lower, *reinterpret_cast<Values*>(to + half) = upper;
      };
      if (is_query) {
        store(q + (static_cast<int64_t>(token) * shape.heads + head) * shape.head_dim + at, low[i], high[i]);
        continue;
      }
      const int kv_head = (head - shape.heads) % shape.kv_heads;
      Quad<C> lower, upper;
#pragma unroll
      for (int j = 0; j < kQuad; ++j)
        lower.values[j] = stored<C>(low[i].values[j]), upper.values[j] = stored<C>(high[i].values[j]);
      if (slot >= 0)
        store((is_value ? values : keys) + place + static_cast<int64_t>(kv_head) * shape.block_size * shape.head_dim, lower,
              upper);
      T* copies = is_value ? v : k;
      if (!copies) continue;
#pragma unroll
      for (int j = 0; j < kQuad; ++j)
        low[i].values[j] = read_back<T>(lower.values[j]), high[i].values[j] = read_back<T>(upper.values[j]);
      store(copies + (static_cast<int64_t>(token) * shape.kv_heads + kv_head) * shape.head_dim + at, low[i], high[i]);
    }
  }
}

}  // namespace

void store_kv(const at::Tensor& k, const at::Tensor& v, KvCacheLayer& cache, const PagedAttentionMetadata& metadata) {
  with_device_type(k.scalar_type(), [&](auto type) {
    using T = decltype(type);
    with_cache_type<T>(cache.code, [&](auto element) {
      using C = decltype(element);
      store_kernel<T, C><<<static_cast<unsigned>(k.size(0)), 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
          data<T>(k), data<T>(v), mutable_data<C>(cache.keys), mutable_data<C>(cache.values), data<int>(metadata.slot_mapping_t),
          static_cast<int>(cache.keys.size(1)), static_cast<int>(cache.block_size()), static_cast<int>(cache.keys.size(3)),
          k.stride(0), v.stride(0));
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
  });
}

RotatedHeads qk_norm_rope_store_kv(const at::Tensor& qkv, const QkNorm& norms, const RopeTable& rope, KvCacheLayer& cache,
                                   const PagedAttentionMetadata& metadata, const AttentionShape& shape, bool keeps_keys) {
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  RotatedHeads found{at::empty({qkv.size(0), shape.heads * shape.head_dim}, qkv.options())};
  if (keeps_keys) found.k = at::empty({qkv.size(0), kv_width}, qkv.options());
  if (keeps_keys)  // what a cache of the compute dtype has is in the projection already
    found.v = cache.code == KvCacheDtype::plain ? qkv.narrow(1, qkv.size(1) - kv_width, kv_width) : at::empty_like(found.k);
  JoinedShape sizes{static_cast<int>(shape.heads), static_cast<int>(shape.kv_heads), static_cast<int>(shape.head_dim),
                    static_cast<int>(cache.block_size()), static_cast<float>(norms.eps)};
  with_device_type(qkv.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto weight = [](const at::Tensor& norm) { return norm.defined() ? data<T>(norm) : nullptr; };
    with_cache_type<T>(cache.code, [&](auto element) {
      using C = decltype(element);
      const bool many = qkv.size(0) >= kPromptRows;
      const auto kernel = many ? qk_norm_rope_store_kernel<T, C, kHeadsOfPrompts> : qk_norm_rope_store_kernel<T, C, 1>;
      const int64_t heads_of_block = kStoreThreads / (shape.head_dim / 2 / kQuad);
      const auto blocks = many ? 1 : (shape.heads + 2 * shape.kv_heads + heads_of_block - 1) / heads_of_block;
      launch_dependent(kernel, dim3(static_cast<unsigned>(qkv.size(0)), static_cast<unsigned>(blocks)), kStoreThreads,
                       c10::cuda::getCurrentCUDAStream(), data<T>(qkv), weight(norms.q), weight(norms.k),
                       rope.cos.const_data_ptr<float>(), rope.sin.const_data_ptr<float>(), data<int>(metadata.slot_mapping_t),
                       mutable_data<T>(found.q), keeps_keys ? mutable_data<T>(found.k) : nullptr,
                       keeps_keys && cache.code != KvCacheDtype::plain ? mutable_data<T>(found.v) : nullptr,
                       mutable_data<C>(cache.keys), mutable_data<C>(cache.values), sizes);
    });
  });
  return found;
}

}  // namespace hone::ops::cuda
