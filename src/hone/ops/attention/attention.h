// Attention within each sequence of a packed row, causal by default. Shapes: q [T, heads * head_dim], k and v [T, kv_heads *
// head_dim].
#pragma once
#include "hone/device/tensor.h"
#include "hone/ops/attention/cu_seqlens.h"

namespace hone::ops {

struct AttentionShape {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1.0;
  int64_t window = 0;  // a position attends to itself and window - 1 before it; 0: to everything before it
  bool causal = true;  // false: also to the same range after it
};

// The positions of its own segment that a position attends to. A layer's window narrows either kind.
enum class AttentionKind { causal, bidirectional };

// Rows of one segment that attend to each other: from the start of the segment, or of a window, to their end.
struct RowBlock {
  int64_t begin = 0, end = 0;
  bool operator==(const RowBlock&) const = default;
};

// Metadata shared by all layers of a forward pass: boundaries on the host, and on the device if its kernels need them.
struct AttentionMetadata {
  CuSeqlens segments;
  Tensor offsets;  // int32 [count + 1] on a GPU, undefined elsewhere: the CPU and NPUs take lengths from the host
  std::vector<AttentionKind> kinds = {};  // of each segment; empty: by AttentionShape::causal
  std::vector<RowBlock> blocks = {};      // of a causal pass: pictures, whose rows see each other
};
AttentionMetadata attention_metadata(const CuSeqlens& segments, at::Device device, std::vector<AttentionKind> kinds = {});

// The definition: scores of every pair, masked, in float32. Oracle of the other paths.
Tensor attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                       const AttentionShape& shape);
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                 const AttentionShape& shape);

// One sequence whose last q.size(0) positions are queries: k and v include the earlier ones.
Tensor attention_with_prefix_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape);

// libtorch's variable-length GPU kernel, if supported; each sequence's queries are the last of its keys.
bool supports_flash(const Tensor& q, const AttentionShape& shape);
Tensor flash_attention_varlen(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& queries,
                              const AttentionMetadata& keys, const AttentionShape& shape);

}  // namespace hone::ops
