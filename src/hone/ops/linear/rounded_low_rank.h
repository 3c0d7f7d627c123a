// Low-rank updates on a 16-bit base on a GPU, as in automatic mixed precision: the float32 factors are rounded once per pass,
// products are 16-bit with float32 sums, and an update is added inside its product. Terms with the same input share products.
#pragma once
#include "hone/ops/cuda/training.h"
#include "hone/ops/linear/low_rank.h"

namespace hone::ops {

bool supports_rounded(const Tensor& x, const LoraWeights& adapter);
bool all_round(const std::vector<LowRankTerm>& terms);  // false where there is none

// A term and its columns of y.
struct PlacedTerm {
  LowRankTerm* term;
  int64_t begin, width;
};
std::vector<PlacedTerm> place_terms(const std::vector<LowRankTerm>& terms, int64_t width, int64_t begin = 0);

// Rounds the factors, draws dropout and computes the projections, which stay in the terms for the backward pass.
void project_rounded(const Tensor& x, const std::vector<PlacedTerm>& placed);
// The same, and adds every update.
void add_rounded_updates(const Tensor& y, const Tensor& x, const std::vector<PlacedTerm>& placed);

class RoundedGradients {
 public:
  RoundedGradients(const Tensor& dy, std::vector<PlacedTerm> placed);
  void add_to_input(const Tensor& dx) const;
  // The addition of add_to_input to dx as one low-rank product, if it is one: for kernels that read dx anyway.
  cuda::LowRankUpdate input_update(const Tensor& dx) const;
  std::vector<std::pair<Tensor, Tensor>> of_factors(
      const Tensor& x) const;  // float32, of a and b of each term; x is not read where no a trains

 private:
  Tensor columns(size_t i) const;  // of dy
  Tensor projected_gradient(size_t i) const;
  bool drop_alike() const;  // every term drops, at one rate, and has as many ranks as the first
  Tensor dy_;
  std::vector<PlacedTerm> placed_;
  Tensor dprojected_;  // [T, sum of ranks]
  std::vector<int64_t> ranks_begin_;
  bool together_;  // no dropout: the terms' products with x and A are one
};

}  // namespace hone::ops
