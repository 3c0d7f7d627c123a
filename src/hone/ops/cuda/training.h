// hone's own training kernels on NVIDIA GPUs, each with a composition of libtorch's operators as oracle (tests/unit/ops). Rows of
// 2-D tensors may be column slices of wider ones. Not supported without nvcc.
#pragma once
#include <vector>

#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// Rows on a GPU that these kernels can read sixteen bytes at a time.
bool supports_rows(const Tensor& x);

// Rotates pairs of each head by direction (+1 or -1) times the table's angles; `to` may be `from`.
bool supports_rope(const Tensor& x, const Tensor& cos);
void rope_rows(const Tensor& from, const Tensor& cos, const Tensor& sin, double direction, const Tensor& to);

// Up to three parts side by side in the contiguous rows of `to`: the last as it is, the others rotated like this. Their widths
// are multiples of two packs of 16 bytes.
void rope_parts(const TensorList& from, const Tensor& cos, const Tensor& sin, double direction, const Tensor& to);

// A low-rank update of a tensor [T, w]: p [T, r] times factor [r, w]. With a draw, dropout is applied as drop() does to a tensor
// [T, w].
struct LowRankUpdate {
  Tensor p, factor;
  double dropout = 0;
  Tensor draw;
};

// Pending updates of gate and up, [T, w] each: p [T, r] times b^T with b [w, r], for both or neither, with equal ranks.
struct GateUpdates {
  Tensor gate_p, gate_b, up_p, up_b;
  bool defined() const { return gate_p.defined(); }
};
bool supports_gate_updates(const Tensor& gate, const Tensor& up, int64_t rank);
Tensor swiglu_with_updates(const Tensor& gate, const Tensor& up, const GateUpdates& updates);

// The gradients of silu(gate) * up, and the product itself if `product` is defined. With `update`, dy means dy plus its update;
// with `updates`, gate and up mean those plus theirs.
bool supports_swiglu_update(const Tensor& dy, int64_t rank);
void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& dgate, const Tensor& dup,
                     const Tensor& product, const LowRankUpdate& update = {}, const GateUpdates& updates = {});

// Counter-based dropout: the mask is a function of `draw`, an int64 pair on the device, so that no mask is stored.
struct Dropped {
  Tensor values, draw;
};
Dropped drop(const Tensor& x, double dropout);                                              // draws from the device's generator
Tensor drop_again(const Tensor& x, double dropout, const Tensor& draw);                     // the same elements
void add_dropped_(const Tensor& sum, const Tensor& x, double dropout, const Tensor& draw);  // sum += those of x

// Float32 matrices times factors, rounded to a 16-bit dtype in one launch and concatenated in the given order.
Tensor rounded_end_to_end(const TensorList& matrices, const std::vector<double>& factors, at::ScalarType type);

// y [T, w] += p [T, r] B^T with B [w, r], or p A with A [r, w] if `across`; 16-bit numbers, float32 sums. Bound by reading and
// writing y.
bool supports_low_rank_add(const Tensor& y, int64_t rank);
void low_rank_add_(const Tensor& y, const Tensor& p, const Tensor& factor, bool across);
// y += the sum of the dropped-out products p_i A_i, one per draw; the p and the A are concatenated.
bool supports_dropped_add(const Tensor& y, int64_t rank, int64_t terms);
void add_dropped_updates_(const Tensor& y, const Tensor& p, const Tensor& factor, double dropout, const TensorList& draws);

// Loss and correctness of every row of logits [rows, V]; with `into_gradient` the logits become their gradient. Rows without a
// target are ignored.
bool supports_cross_entropy(const Tensor& hidden, int64_t vocabulary);
void cross_entropy_rows(const Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient,
                        const Tensor& losses, const Tensor& correct);

}  // namespace hone::ops::cuda
