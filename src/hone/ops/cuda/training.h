// What training computes on NVIDIA GPUs in kernels of our own, each with its composition of libtorch's as oracle
// (tests/unit/ops). Rows of 2-D tensors may be column slices of wider ones. Without nvcc nothing is served here.
#pragma once
#include <vector>

#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// Rows on a GPU that the kernels here read sixteen bytes at a time.
bool serves_rows(const Tensor& x);

// Rotates pairs of each head by direction (+1 or -1) times the table's angles; `to` may be `from`.
bool serves_rope(const Tensor& x, const Tensor& cos);
void rope_rows(const Tensor& from, const Tensor& cos, const Tensor& sin, double direction, const Tensor& to);

// An update of few ranks of a tensor [T, w]: p [T, r] times factor [r, w]. With a draw, its elements are dropped as drop() would
// drop those of a tensor [T, w].
struct LowRankUpdate {
  Tensor p, factor;
  double dropout = 0;
  Tensor draw;
};

// Updates that gate and up, [T, w] each, still lack: p [T, r] times b^T with b [w, r], of both or of neither, of as many ranks.
struct GateUpdates {
  Tensor gate_p, gate_b, up_p, up_b;
  bool defined() const { return gate_p.defined(); }
};
bool serves_gate_updates(const Tensor& gate, const Tensor& up, int64_t rank);
Tensor swiglu_with_updates(const Tensor& gate, const Tensor& up, const GateUpdates& updates);

// The gradients of silu(gate) * up, and the product itself where `product` is defined. Where `update` is, dy stands for dy and
// its update, and where `updates` are, gate and up for what they are with them.
bool serves_swiglu_update(const Tensor& dy, int64_t rank);
void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& dgate, const Tensor& dup,
                     const Tensor& product, const LowRankUpdate& update = {}, const GateUpdates& updates = {});

// Dropout by counters: which elements stay is a function of `draw`, an int64 pair on the device, so that nothing as large as x is
// kept.
struct Dropped {
  Tensor values, draw;
};
Dropped drop(const Tensor& x, double dropout);                                              // draws from the device's generator
Tensor drop_again(const Tensor& x, double dropout, const Tensor& draw);                     // the same elements
void add_dropped_(const Tensor& sum, const Tensor& x, double dropout, const Tensor& draw);  // sum += those of x

// Float32 matrices times factors, rounded to a 16-bit type in one launch; they are concatenated in the order given.
Tensor rounded_end_to_end(const TensorList& matrices, const std::vector<double>& factors, at::ScalarType type);

// y [T, w] += p [T, r] B^T with B [w, r], or p A with A [r, w] where `across`; 16-bit numbers, float32 sums. Few ranks: bound by
// reading and writing y.
bool serves_low_rank_add(const Tensor& y, int64_t rank);
void low_rank_add_(const Tensor& y, const Tensor& p, const Tensor& factor, bool across);
// y += the sum of the dropped products p_i A_i, one for each draw; the p and the A of all are adjacent.
bool serves_dropped_add(const Tensor& y, int64_t rank, int64_t terms);
void add_dropped_updates_(const Tensor& y, const Tensor& p, const Tensor& factor, double dropout, const TensorList& draws);

// Loss and hit of every row of logits [rows, V], which with `into_gradient` become their gradient. A row without a target counts
// nothing.
bool serves_cross_entropy(const Tensor& hidden, int64_t vocabulary);
void cross_entropy_rows(const Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient,
                        const Tensor& losses, const Tensor& correct);

}  // namespace hone::ops::cuda
