// Metadata shared by all linear attention layers of a forward pass: how the positions of each sequence are split into chunks.
// The first chunks of all sequences come first, then the second ones, and so on, longest sequence first. The sequences that have
// an n-th chunk are therefore contiguous.
#pragma once
#include <vector>

#include "hone/device/tensor.h"
#include "hone/ops/attention/cu_seqlens.h"
#include "hone/ops/cuda/delta_rule.h"

namespace hone::ops {

inline constexpr int64_t kDeltaRuleChunk = 64;  // the most positions of a chunk, as transformers and FLA have it

struct LinearAttentionMetadata {
  int64_t steps = 0;                // inference: the leading segments of one position, which advance together without chunks
  CuSeqlens segments;               // the others, whose rows follow; their T rows are numbered from 0
  Tensor positions_t;               // int64 [T]: within the segment; undefined where there is at most one segment
  int64_t chunk = 1;                // positions of a chunk
  std::vector<int64_t> step_sizes;  // the number of segments with a first chunk, with a second one, …
  std::vector<int64_t> order;       // segments by number of chunks, the most first; empty ones are left out
  Tensor rows_p;                    // int64 [chunks * chunk]: the row at each place, T where there is none; undefined: in order
  Tensor places_t;                  // int64 [T]: the place of each row
  cuda::DeltaChunks of_segments;    // on a GPU: the chunks segment after segment
};
LinearAttentionMetadata linear_attention_metadata(const CuSeqlens& segments, at::Device device, bool is_inference = false);

// x [T, …] -> [chunks * chunk, …] with zeros where there is no row, and back. Differentiable.
Tensor to_chunks(const Tensor& x, const LinearAttentionMetadata& metadata);
Tensor from_chunks(const Tensor& x, const LinearAttentionMetadata& metadata);

}  // namespace hone::ops
