// Attention inside each sequence of a packed row, causal unless said otherwise. Shapes: q [T, heads * head_dim], k and v [T,
// kv_heads * head_dim].
#pragma once
#include "hone/device/tensor.h"
#include "hone/ops/attention/cu_seqlens.h"

namespace hone::ops {

struct AttentionShape {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1.0;
  int64_t window = 0;  // a position sees itself and window - 1 before it; 0: everything before it
  bool causal = true;  // false: a position sees as much of what follows it
};

// Which positions of its own segment a position sees. A layer's window narrows either kind.
enum class AttentionKind { causal, bidirectional };

// Rows of one segment that see each other: all from the segment's beginning, or a window's, to their end.
struct RowBlock {
  int64_t begin = 0, end = 0;
  bool operator==(const RowBlock&) const = default;
};

// What every layer of a forward pass shares: boundaries on the host, and on the device where its kernels read them.
struct AttentionMetadata {
  CuSeqlens segments;
  Tensor offsets;  // int32 [count + 1] on a GPU, undefined elsewhere: the CPU and NPUs take lengths from the host
  std::vector<AttentionKind> kinds = {};  // of each segment; empty: as AttentionShape::causal says
  std::vector<RowBlock> blocks = {};      // of a causal pass: pictures, whose rows see each other
};
AttentionMetadata attention_metadata(const CuSeqlens& segments, at::Device device, std::vector<AttentionKind> kinds = {});

// The definition: scores of every pair, masked, in float32. Oracle of the other paths.
Tensor attention_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& plan,
                       const AttentionShape& shape);
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& plan, const AttentionShape& shape);

// One sequence whose last q.size(0) positions ask: k and v hold those before them too.
Tensor attention_with_prefix_plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape);

// libtorch's variable-length GPU kernel, where it serves; each sequence's queries are the last of its keys.
bool supports_flash(const Tensor& q, const AttentionShape& shape);
Tensor flash_attention_varlen(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& queries,
                              const AttentionMetadata& keys, const AttentionShape& shape);

}  // namespace hone::ops
