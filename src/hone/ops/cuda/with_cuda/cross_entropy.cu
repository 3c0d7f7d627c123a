// Cross-entropy of rows of logits. A row stays in the shared memory of a cluster of thread blocks (compute capability 9.0 and
// later): it is read once and its gradient written once. Otherwise one block per row reads it twice.
#include <cooperative_groups.h>

#include "hone/ops/cuda/training.h"
#include "hone/ops/cuda/with_cuda/dependent_launch.cuh"
#include "hone/ops/cuda/with_cuda/vectors.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kEntropyThreads = 512, kEntropyWarps = kEntropyThreads / 32;
constexpr int64_t kNoTarget = -100;
constexpr float kLog2E = 1.4426950408889634f;

// 2^x within 2 ulp; tiny results are 0.
__device__ inline float quick_exp2(float x) {
  float found;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
  return found;
}

template <class T>
struct EntropyRows {
  T* logits;
  const int64_t* targets;
  const float* weights;  // null: 1
  float smoothing;
  bool into_gradient;
  float* losses;
  int64_t* correct;
  int vocabulary;

  __device__ float weight(int64_t row) const { return weights ? weights[row] : 1.0f; }
  __device__ void skip(int64_t row) const { losses[row] = 0, correct[row] = 0; }
};

template <class T>
__device__ inline Pack<T> filled_pack(float value) {
  Pack<T> pack;
#pragma unroll
  for (int j = 0; j < Pack<T>::kCount; ++j) pack.values[j] = from_float<T>(value);
  return pack;
}

// Of a part of a row: the maximum and its index, the sum of exp(value - maximum), and the plain sum.
struct RowPart {
  float peak = -INFINITY, total = 0, sum = 0;
  int place = 0x7fffffff;
};

__device__ inline void meet(RowPart& own, const RowPart& other) {
  const float peak = fmaxf(own.peak, other.peak);
  if (other.peak > own.peak || (other.peak == own.peak && other.place < own.place)) own.place = other.place;
  const float left = own.peak == -INFINITY ? 0.0f : own.total * __expf(own.peak - peak),
              right = other.peak == -INFINITY ? 0.0f : other.total * __expf(other.peak - peak);
  own.total = left + right;
  own.sum += other.sum;
  own.peak = peak;
}

__device__ inline RowPart of_block(RowPart own) {
  __shared__ RowPart parts[kEntropyWarps];
  for (int offset = 16; offset > 0; offset /= 2) {
    RowPart other{__shfl_xor_sync(0xffffffffu, own.peak, offset), __shfl_xor_sync(0xffffffffu, own.total, offset),
                  __shfl_xor_sync(0xffffffffu, own.sum, offset), __shfl_xor_sync(0xffffffffu, own.place, offset)};
    meet(own, other);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  RowPart all = parts[0];
  for (int i = 1; i < kEntropyWarps; ++i) meet(all, parts[i]);
  return all;
}

template <class T>
__global__ void __launch_bounds__(kEntropyThreads) cross_entropy_kernel(EntropyRows<T> a) {
  constexpr int kPack = Pack<T>::kCount;
  const int64_t row = blockIdx.x, target = a.targets[row];
  const int packs = a.vocabulary / kPack;
  T* own = a.logits + row * a.vocabulary;
  if (target == kNoTarget) {
    if (threadIdx.x == 0) a.skip(row);
    for (int i = threadIdx.x; a.into_gradient && i < packs; i += kEntropyThreads) store_pack(own + i * kPack, filled_pack<T>(0));
    return;
  }
  RowPart part;
  for (int i = threadIdx.x; i < packs; i += kEntropyThreads) {
    const auto pack = load_pack(own + i * kPack);
    float peak = part.peak, values[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      values[j] = to_float(pack.values[j]);
      part.sum += values[j];
      if (values[j] > peak) peak = values[j], part.place = i * kPack + j;
    }
    part.total *= peak > part.peak ? __expf(part.peak - peak) : 1.0f;
#pragma unroll
    for (int j = 0; j < kPack; ++j) part.total += __expf(values[j] - peak);
    part.peak = peak;
  }
  const float at_target = to_float(own[target]);
  const RowPart all = of_block(part);
  const float normalizer = all.peak + __logf(all.total), weight = a.weight(row),
              even = a.smoothing / static_cast<float>(a.vocabulary);
  if (threadIdx.x == 0) {
    a.losses[row] = weight * (normalizer - (1.0f - a.smoothing) * at_target - even * all.sum);
    a.correct[row] = all.place == target;
  }
  if (!a.into_gradient) return;
  for (int i = threadIdx.x; i < packs; i += kEntropyThreads) {
    auto pack = load_pack(own + i * kPack);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float hit = i * kPack + j == target ? 1.0f - a.smoothing : 0.0f;
      pack.values[j] = from_float<T>(weight * (__expf(to_float(pack.values[j]) - normalizer) - even - hit));
    }
    store_pack(own + i * kPack, pack);
  }
}

// Of a warp's part of a row: as above. The index is not needed: a target is the first maximum if it equals the maximum and
// nothing before it does.
struct WarpPart {
  float peak, total, sum;
};

constexpr int kMostBlocks = 8;  // every device allows as many in a cluster
// Every block has the parts of all warps of its cluster.
struct ClusterParts {
  WarpPart warps[kMostBlocks * kEntropyWarps];
  int earlier;  // in the first block: something before the target equals it
};

// All parts together, the same in every warp of the cluster.
__device__ inline WarpPart meet_warps(const WarpPart* parts, int count) {
  const int lane = threadIdx.x % 32;
  WarpPart found{-INFINITY, 0, 0};
  for (int i = lane; i < count; i += 32) found.peak = fmaxf(found.peak, parts[i].peak);
  found.peak = warp_max(found.peak);
  for (int i = lane; i < count; i += 32) {
    found.total += parts[i].peak == -INFINITY ? 0.0f : parts[i].total * __expf(parts[i].peak - found.peak);
    found.sum += parts[i].sum;
  }
  found.total = warp_sum(found.total), found.sum = warp_sum(found.sum);
  return found;
}

// 16 bytes to shared memory, past the registers.
__device__ inline void copy_async(uint4* to, const void* from) {
  const auto place = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}

// A row has as many blocks as the cluster. A thread reads from shared memory only what it copied there.
template <class T>
__global__ void __launch_bounds__(kEntropyThreads, 4) cluster_entropy_kernel(EntropyRows<T> a, int blocks) {
#if __CUDA_ARCH__ >= 900
  constexpr int kPack = Pack<T>::kCount;
  extern __shared__ uint4 words[];
  __shared__ ClusterParts parts;
  auto cluster = cooperative_groups::this_cluster();
  const int64_t row = blockIdx.x / blocks;
  const int target = static_cast<int>(a.targets[row]), packs = a.vocabulary / kPack,
            first = blockIdx.x % blocks * kEntropyThreads + threadIdx.x, step = blocks * kEntropyThreads;
  const bool leads = first == 0;
  T* own = a.logits + row * a.vocabulary;
  if (target == kNoTarget) {
    if (leads) a.skip(row);
    for (int i = first; a.into_gradient && i < packs; i += step) store_pack(own + i * kPack, filled_pack<T>(0));
    return;
  }
  asm volatile("barrier.cluster.arrive.relaxed;");
  uint4* mine = words + threadIdx.x;
  for (int i = first, k = 0; i < packs; i += step, k += kEntropyThreads) copy_async(mine + k, own + i * kPack);
  const float at_target = to_float(own[target]);
  asm volatile("cp.async.wait_all;" ::: "memory");
  // Calls body(pack, floats) for the thread's packs.
  auto for_packs = [&](auto body) {
#pragma unroll 2
    for (int i = first, k = 0; i < packs; i += step, k += kEntropyThreads) {
      const uint4 four = mine[k];
      body(i, floats_of(*reinterpret_cast<const Pack<T>*>(&four)));
    }
  };
  float peak = -INFINITY, total = 0, sum = 0;
  for_packs([&](int, const PackFloats<T>& floats) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) peak = fmaxf(peak, floats.values[j]);
  });
  peak = warp_max(peak);
  const float base = peak == -INFINITY ? 0.0f : peak * kLog2E;
  for_packs([&](int, const PackFloats<T>& floats) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) total += quick_exp2(floats.values[j] * kLog2E - base);
  });
  if (a.smoothing > 0)
    for_packs([&](int, const PackFloats<T>& floats) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum += floats.values[j];
    });
  total = warp_sum(total), sum = warp_sum(sum);
  asm volatile("barrier.cluster.wait;" ::: "memory");  // all blocks have begun: their shared memory may be written
  if (const int lane = threadIdx.x % 32; lane < blocks)
    cluster.map_shared_rank(&parts, lane)->warps[blockIdx.x % blocks * kEntropyWarps + threadIdx.x / 32] = {peak, total, sum};
  if (threadIdx.x == 0) parts.earlier = 0;
  cluster.sync();  // also: every thread has read the target's logit, which may be overwritten from here on
  const WarpPart all = meet_warps(parts.warps, blocks * kEntropyWarps);
  const float normalizer = all.peak + __logf(all.total), weight = a.weight(row),
              even = a.smoothing / static_cast<float>(a.vocabulary);
  if (at_target == all.peak) {
    bool earlier = false;
    for_packs([&](int i, const PackFloats<T>& floats) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) earlier |= floats.values[j] == all.peak && i * kPack + j < target;
    });
    if (earlier) cluster.map_shared_rank(&parts, 0)->earlier = 1;
  }
  if (a.into_gradient) {
    const float shift = normalizer * kLog2E, less = weight * even, hit = weight * (1.0f - a.smoothing);
    for_packs([&](int i, PackFloats<T> floats) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) floats.values[j] = weight * quick_exp2(floats.values[j] * kLog2E - shift) - less;
      if (target / kPack == i) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) floats.values[j] -= target % kPack == j ? hit : 0.0f;
      }
      store_pack(own + i * kPack, rounded_pack(floats));
    });
  }
  if (at_target == all.peak) cluster.sync();  // the first block has been told
  if (!leads) return;
  a.losses[row] = weight * (normalizer - (1.0f - a.smoothing) * at_target - even * all.sum);
  a.correct[row] = at_target == all.peak && parts.earlier == 0;
#endif
}

// Several blocks of a multiprocessor: while some load, others store. False if rows are too wide, or without clusters.
template <class T>
bool launch_cluster(const EntropyRows<T>& rows, int64_t count) {
  constexpr int kBytesWanted = 40 << 10, kMostBytes = 200 << 10, kRound = kEntropyThreads * 16;
  const int bytes = rows.vocabulary * static_cast<int>(sizeof(T));
  int blocks = 1;
  while (blocks < kMostBlocks && blocks * kBytesWanted < bytes) blocks *= 2;
  const int of_block = (bytes + blocks * kRound - 1) / (blocks * kRound) * kRound;
  if (of_block > kMostBytes || !has_dependent_launches()) return false;  // those came with clusters
  C10_CUDA_CHECK(cudaFuncSetAttribute(cluster_entropy_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(blocks), attribute.val.clusterDim.y = 1, attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(count * blocks), config.blockDim = kEntropyThreads;
  config.dynamicSmemBytes = static_cast<size_t>(of_block), config.stream = c10::cuda::getCurrentCUDAStream();
  config.attrs = &attribute, config.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, cluster_entropy_kernel<T>, rows, blocks));
  return true;
}

template <class T>
void launch_entropy(const EntropyRows<T>& rows, int64_t count) {
  if (launch_cluster(rows, count)) return;
  cross_entropy_kernel<T><<<static_cast<unsigned>(count), kEntropyThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(rows);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

bool supports_cross_entropy(const at::Tensor& hidden, int64_t vocabulary) {
  return hidden.is_cuda() &&
         (hidden.scalar_type() == at::kFloat || hidden.scalar_type() == at::kHalf || hidden.scalar_type() == at::kBFloat16) &&
         vocabulary % 8 == 0 && vocabulary > 0;
}

void cross_entropy_rows(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights, double smoothing,
                        bool into_gradient, const at::Tensor& losses, const at::Tensor& correct) {
  TORCH_CHECK(logits.is_contiguous(), "logits lie end to end");
  if (logits.size(0) == 0) return;
  with_device_type(logits.scalar_type(), [&](auto type) {
    using T = decltype(type);
    launch_entropy<T>(
        {mutable_data<T>(logits), targets.const_data_ptr<int64_t>(),
         weights.defined() ? weights.const_data_ptr<float>() : nullptr, static_cast<float>(smoothing), into_gradient,
         losses.mutable_data_ptr<float>(), correct.mutable_data_ptr<int64_t>(), static_cast<int>(logits.size(1))},
        logits.size(0));
  });
}

}  // namespace hone::ops::cuda
