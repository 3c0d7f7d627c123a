#include "hone/ops/attention/decode_chunks.h"
#include "hone/ops/cuda/paged_attention.h"
#include "hone/ops/cuda/with_cuda/chunked_decode.cuh"
#include "hone/ops/cuda/with_cuda/softmax_parts.cuh"

namespace hone::ops::cuda {
namespace {

constexpr int kPagedThreads = 128, kPagedWarps = kPagedThreads / 32;
constexpr int kPositions = 4;       // adjacent positions per lane group and iteration: loads in flight
constexpr int kMaxGroup = 8;        // queries of one KV head per block
constexpr int kBlocksWanted = 264;  // two per multiprocessor of an H200: with fewer, sequences are split over blocks
constexpr int kMaxSplits = 32;
constexpr double kLog2E = 1.4426950408889634;

struct DecodeShape {
  int heads, kv_heads, group, block_size, splits, window;
  float scale;  // times log2(e): exponentials are of 2
};

// The sum over the lane groups of a warp, for each lane index.
template <int kLanes>
__device__ inline float group_sum(float value) {
#pragma unroll
  for (int offset = kLanes; offset < 32; offset *= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// One block: the queries of one KV head of one sequence over one part of its positions. Lane groups process four positions at a
// time, each with its own softmax state; the states are merged at the end.
template <class T, int D, int G>
__global__ void __launch_bounds__(kPagedThreads)
    decode_kernel(const T* q, const T* keys, const T* values, const int* tables, const int* begins, const int* lengths, T* out,
                  float* partial, DecodeShape shape) {
  constexpr int kPack = Pack<T>::kCount, kLanes = D / kPack, kGroups = kPagedThreads / kLanes;
  const int sequence = blockIdx.x, head = blockIdx.y % shape.kv_heads, first_query = blockIdx.y / shape.kv_heads * G,
            split = blockIdx.z;
  let_next_begin();
  wait_for_previous();
  const int length = lengths[sequence], lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  const int start = shape.window > 0 && length > shape.window ? length - shape.window : 0;
  const int span = (length - start + shape.splits - 1) / shape.splits, part = (span + kPositions - 1) / kPositions * kPositions;
  const int first = start / kPositions * kPositions + split * (part + kPositions), last = min(length, first + part + kPositions);
  const int* table = tables + begins[sequence];
  const int count = min(G, shape.group - first_query);

  float query[G][kPack];
  const T* own = q + (static_cast<int64_t>(sequence) * shape.heads + head * shape.group + first_query) * D;
#pragma unroll
  for (int g = 0; g < G; ++g) {
    if (g >= count) break;
    auto pack = load_pack(own + g * D + lane * kPack);
#pragma unroll
    for (int i = 0; i < kPack; ++i) query[g][i] = to_float(pack.values[i]) * shape.scale;
  }
  float peak[G], total[G], sums[G][kPack];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    peak[g] = -INFINITY, total[g] = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[g][i] = 0;
  }

  const int64_t block_stride = static_cast<int64_t>(shape.kv_heads) * shape.block_size * D;
  const int64_t head_offset = static_cast<int64_t>(head) * shape.block_size * D + lane * kPack;
  // Prefetches the block table entry of the next positions, so that only one of two dependent loads remains on the critical path.
  auto block_at = [&](int base) { return table[(base < last ? base : first) / shape.block_size]; };
  int block = first < last ? block_at(first + group * kPositions) : 0;
  for (int base = first + group * kPositions; base - group * kPositions < last; base += kGroups * kPositions) {
    const bool active = base < last;
    const int position = active ? base : first;
    const int64_t place = block * block_stride + static_cast<int64_t>(position % shape.block_size) * D + head_offset;
    Pack<T> key[kPositions], value[kPositions];
#pragma unroll
    for (int p = 0; p < kPositions; ++p) key[p] = stream_pack(keys + place + p * D);
#pragma unroll
    for (int p = 0; p < kPositions; ++p) value[p] = stream_pack(values + place + p * D);
    block = block_at(base + kGroups * kPositions);
#pragma unroll
    for (int g = 0; g < G; ++g) {
      float score[kPositions], highest = peak[g];
#pragma unroll
      for (int p = 0; p < kPositions; ++p) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < kPack; ++i) dot += query[g][i] * to_float(key[p].values[i]);
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, offset);
        score[p] = active && base + p < last && base + p >= start ? dot : -INFINITY;
        highest = fmaxf(highest, score[p]);
      }
      if (highest == -INFINITY) continue;
      const float shrink = exp2f(peak[g] - highest);
      peak[g] = highest;
      total[g] *= shrink;
#pragma unroll
      for (int i = 0; i < kPack; ++i) sums[g][i] *= shrink;
#pragma unroll
      for (int p = 0; p < kPositions; ++p) {
        const float weight = exp2f(score[p] - highest);
        total[g] += weight;
#pragma unroll
        for (int i = 0; i < kPack; ++i) sums[g][i] += weight * to_float(value[p].values[i]);
      }
    }
  }

  // Lane groups are merged by shuffles, warps in shared memory, for all queries at once.
  __shared__ float all_sums[G][kPagedWarps][D], all_peaks[G][kPagedWarps], all_totals[G][kPagedWarps];
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float highest = peak[g];
    for (int offset = kLanes; offset < 32; offset *= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
    const float shrink = peak[g] == -INFINITY ? 0.0f : exp2f(peak[g] - highest);
    const float sum = group_sum<kLanes>(total[g] * shrink);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[g][i] = group_sum<kLanes>(sums[g][i] * shrink);
    if (threadIdx.x % 32 >= kLanes) continue;
#pragma unroll
    for (int i = 0; i < kPack; ++i) all_sums[g][warp][lane * kPack + i] = sums[g][i];
    if (lane == 0) all_peaks[g][warp] = highest, all_totals[g][warp] = sum;
  }
  __syncthreads();
  for (int element = threadIdx.x; element < count * D; element += kPagedThreads) {
    const int g = element / D, d = element % D;
    SoftmaxParts parts;
#pragma unroll
    for (int w = 0; w < kPagedWarps; ++w) parts.add(all_peaks[g][w], all_totals[g][w], all_sums[g][w][d]);
    const int64_t row =
        static_cast<int64_t>(sequence * shape.heads + head * shape.group + first_query + g) * shape.splits + split;
    if (shape.splits == 1) {
      out[row * D + d] = from_float<T>(parts.result());
    } else {
      float* own_part = partial + row * (D + 2);
      own_part[d] = parts.value;
      if (d == 0) own_part[D] = parts.peak, own_part[D + 1] = parts.total;
    }
  }
}

// One block per query row: merges its splits.
template <class T>
__global__ void merge_kernel(const float* partial, T* out, int splits, int head_dim) {
  let_next_begin();
  wait_for_previous();
  const float* rows = partial + static_cast<int64_t>(blockIdx.x) * splits * (head_dim + 2);
  for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
    SoftmaxParts parts;
    for (int s = 0; s < splits; ++s) {
      const float* part = rows + s * (head_dim + 2);
      parts.add(part[head_dim], part[head_dim + 1], part[d]);
    }
    out[static_cast<int64_t>(blockIdx.x) * head_dim + d] = from_float<T>(parts.result());
  }
}

// Graph capture fixes the grid, so the number of splits follows from the batch alone, never from the lengths.
int splits_for(int64_t sequences, int64_t rows) {
  return static_cast<int>(std::clamp<int64_t>((kBlocksWanted + sequences * rows - 1) / (sequences * rows), 1, kMaxSplits));
}

template <class T, int D, int G>
void launch(const at::Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata, const AttentionShape& shape,
            at::Tensor& out) {
  int group = static_cast<int>(shape.heads / shape.kv_heads), parts = (group + G - 1) / G;
  auto sequences = q.size(0);
  DecodeShape sizes{static_cast<int>(shape.heads),
                    static_cast<int>(shape.kv_heads),
                    group,
                    static_cast<int>(cache.block_size()),
                    splits_for(sequences, shape.kv_heads * parts),
                    static_cast<int>(shape.window),
                    static_cast<float>(shape.scale * kLog2E)};
  at::Tensor partial;
  if (sizes.splits > 1) partial = at::empty({sequences * shape.heads * sizes.splits, D + 2}, q.options().dtype(at::kFloat));
  auto stream = c10::cuda::getCurrentCUDAStream();
  dim3 grid(static_cast<unsigned>(sequences), static_cast<unsigned>(shape.kv_heads * parts), static_cast<unsigned>(sizes.splits));
  launch_dependent(decode_kernel<T, D, G>, grid, kPagedThreads, stream, data<T>(q), data<T>(cache.keys), data<T>(cache.values),
                   data<int>(metadata.block_tables), data<int>(metadata.table_begins_s), data<int>(metadata.lengths_s),
                   mutable_data<T>(out), sizes.splits > 1 ? partial.mutable_data_ptr<float>() : nullptr, sizes);
  if (sizes.splits == 1) return;
  launch_dependent(merge_kernel<T>, static_cast<unsigned>(sequences * shape.heads), 64, stream, partial.const_data_ptr<float>(),
                   mutable_data<T>(out), sizes.splits, D);
}

// On the tensor cores, if the metadata has a work partition.
template <class T, class C, int D>
void launch_chunked(const at::Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
                    const AttentionShape& shape, at::Tensor& out) {
  const int group = static_cast<int>(shape.heads / shape.kv_heads), parts = (group + kTileQueries - 1) / kTileQueries,
            heads = static_cast<int>(shape.heads);
  const auto sequences = static_cast<int>(q.size(0));
  const int64_t chunks = most_decode_chunks(sequences);
  const ChunkShape sizes{heads,
                         static_cast<int>(shape.kv_heads),
                         group,
                         static_cast<int>(cache.block_size()),
                         static_cast<int>(shape.window),
                         sequences,
                         static_cast<float>(shape.scale * kLog2E)};
  auto partial = at::empty({chunks * heads, D + 2}, q.options().dtype(at::kFloat));
  auto stream = c10::cuda::getCurrentCUDAStream();
  dim3 grid(static_cast<unsigned>(shape.kv_heads * parts), static_cast<unsigned>(chunks));
  const int* list = data<int>(metadata.decode_chunks);
  launch_dependent(chunk_kernel<T, C, D>, grid, kChunkThreads, stream, data<T>(q), data<C>(cache.keys), data<C>(cache.values),
                   list, data<int>(metadata.block_tables), data<int>(metadata.table_begins_s), data<int>(metadata.lengths_s),
                   mutable_data<T>(out), partial.mutable_data_ptr<float>(), sizes);
  launch_dependent(merge_chunks_kernel<T, D>, static_cast<unsigned>(sequences * heads), D / 2, stream,
                   partial.const_data_ptr<float>(), list, mutable_data<T>(out), heads, sequences);
}

template <class T, int D>
void launch_for_group(const at::Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
                      const AttentionShape& shape, at::Tensor& out) {
  int64_t group = shape.heads / shape.kv_heads;
  if constexpr (sizeof(T) == 2 && D >= 64)
    if (metadata.decode_chunks.defined() && cache.block_size() % kTile == 0)
      return with_cache_type<T>(cache.code,
                                [&](auto type) { launch_chunked<T, decltype(type), D>(q, cache, metadata, shape, out); });
  TORCH_CHECK(cache.code == KvCacheDtype::plain, "a KV cache of 8-bit floats is for heads of 64, 128 or 256 and blocks of 16");
  if (group == 1) return launch<T, D, 1>(q, cache, metadata, shape, out);
  if (group == 2) return launch<T, D, 2>(q, cache, metadata, shape, out);
  if (group <= 4) return launch<T, D, 4>(q, cache, metadata, shape, out);
  launch<T, D, kMaxGroup>(q, cache, metadata, shape, out);
}

}  // namespace

bool supports_paged(const at::Tensor& q, const AttentionShape& shape) {
  auto type = q.scalar_type();
  int64_t d = shape.head_dim;
  return q.is_cuda() && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) &&
         (d == 16 || d == 32 || d == 64 || d == 128 || (d == 256 && type != at::kFloat));
}

bool supports_paged(const at::Tensor& q, const AttentionShape& shape, KvCacheDtype code, int64_t block_size) {
  if (!supports_paged(q, shape) || code == KvCacheDtype::plain) return supports_paged(q, shape);
  return (code == KvCacheDtype::fp8_e4m3 || code == KvCacheDtype::fp8_e5m2) && q.element_size() == 2 && shape.head_dim >= 64 &&
         block_size % kTile == 0;
}

at::Tensor paged_decode(const at::Tensor& query, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
                        const AttentionShape& shape) {
  auto q = query.contiguous();
  auto out = at::empty_like(q);
  with_device_type(q.scalar_type(), [&](auto type) {
    using T = decltype(type);
    switch (shape.head_dim) {
      case 16:
        return launch_for_group<T, 16>(q, cache, metadata, shape, out);
      case 32:
        return launch_for_group<T, 32>(q, cache, metadata, shape, out);
      case 64:
        return launch_for_group<T, 64>(q, cache, metadata, shape, out);
      case 128:
        return launch_for_group<T, 128>(q, cache, metadata, shape, out);
      default:
        if constexpr (sizeof(T) == 2) return launch_for_group<T, 256>(q, cache, metadata, shape, out);
    }
  });
  return out;
}

}  // namespace hone::ops::cuda
