// Attention by its definition, in float32, shared by the training and inference operators of this folder.
#pragma once
#include "cann_emulator/ops/operator.h"

namespace cann::attention {

// One sequence's numbers as [heads, length, dim], key heads not repeated.
struct Sequence {
  Tensor q, k, v;
};

struct Shape {
  int64_t heads, sparse_mode, before, after;
  double scale;
};

struct Forward {
  Tensor out, row_max, sum;  // with the softmax's maximum and sum of every row
};
struct Backward {
  Tensor dq, dk, dv;
};

void check_types(const Tensor& q, const Tensor& k, const Tensor& v);
void check_heads(int64_t heads, int64_t kv_heads, int64_t head_dim);
// Sparse modes 2 to 4 take one compressed triangle whatever the lengths.
void check_compressed(const Tensor& mask, int64_t sparse_mode);

// True where a pair is masked: [queries, keys], or shaped like the given mask, broadcast over heads. Undefined if nothing is
// masked.
Tensor attention_mask(int64_t queries, int64_t keys, const Tensor& mask, const Shape& shape);

Forward forward(const Sequence& s, const Tensor& hidden, const Shape& shape);
Backward backward(const Sequence& s, const Tensor& hidden, const Tensor& dy, const Forward& kept, const Shape& shape);

// A dense layout as [batch, heads, length, dim]; the same call on an output gives the view to write into.
Tensor dense(const Tensor& x, const std::string& layout, int64_t heads);
int64_t key_heads(const Tensor& q, const Tensor& k, const std::string& layout, int64_t heads);
Tensor to_float32(const Tensor& x);

}  // namespace cann::attention
