#include "hone/ops/linear/rounded_low_rank.h"

#include "hone/ops/newer_torch.h"

namespace hone::ops {
namespace {

bool is_short(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }
int64_t rank_of(const PlacedTerm& placed) { return placed.term->a.size(0); }

bool none_drops(const std::vector<PlacedTerm>& placed) {
  return std::ranges::all_of(placed, [](const auto& each) { return each.term->dropout == 0; });
}

int64_t sum_of_ranks(const std::vector<PlacedTerm>& placed) {
  int64_t sum = 0;
  for (const auto& each : placed) sum += rank_of(each);
  return sum;
}

// The A of all terms, concatenated, [sum of ranks, in].
Tensor all_rounded_a(const std::vector<PlacedTerm>& placed) {
  const auto& first = placed.front().term->rounded_a;
  return first.as_strided({sum_of_ranks(placed), first.size(1)}, {first.size(1), 1});
}

// A is rounded together with its term's scale, which is then part of everything computed from it except A's own gradient.
void round_factors(const std::vector<PlacedTerm>& placed, at::ScalarType type) {
  TensorList matrices;
  std::vector<double> factors;
  for (const auto& each : placed) matrices.push_back(each.term->a.detach()), factors.push_back(each.term->scale);
  for (const auto& each : placed) matrices.push_back(each.term->b.detach()), factors.push_back(1);
  auto flat = cuda::rounded_end_to_end(matrices, factors, type);
  int64_t begin = 0;
  auto next = [&](const Tensor& like) {
    auto part = flat.narrow(0, begin, like.numel()).view(like.sizes());
    begin += like.numel();
    return part;
  };
  for (const auto& each : placed) each.term->rounded_a = next(each.term->a);
  for (const auto& each : placed) each.term->rounded_b = next(each.term->b);
}

// y += p B^T, or p A if `across`.
void add_product_(const Tensor& y, const Tensor& p, const Tensor& factor, bool across) {
  if (cuda::supports_low_rank_add(y, p.size(1)))
    cuda::low_rank_add_(y, p, factor, across);
  else
    y.addmm_(p, across ? factor : factor.t());
}

void project(const Tensor& x, const std::vector<PlacedTerm>& placed) {
  if (none_drops(placed)) {
    auto all = at::mm(x, all_rounded_a(placed).t());
    int64_t begin = 0;
    for (const auto& each : placed) {
      each.term->projected = all.narrow(1, begin, rank_of(each));
      begin += rank_of(each);
    }
    return;
  }
  for (const auto& [term, begin, width] : placed) {
    auto input = x;
    if (term->dropout > 0) {
      auto dropped = cuda::drop(x, term->dropout);
      input = dropped.values;
      term->dropout_mask = dropped.draw;
    }
    term->projected = at::mm(input, term->rounded_a.t());
  }
}

}  // namespace

bool supports_rounded(const Tensor& x, const LoraWeights& adapter) {
  return x.is_cuda() && is_short(x.scalar_type()) && adapter.a.scalar_type() == at::kFloat &&
         adapter.b.scalar_type() == at::kFloat && x.size(-1) % 8 == 0 && cuda::supports_rows(x.reshape({-1, x.size(-1)}));
}

bool all_round(const std::vector<LowRankTerm>& terms) {
  return !terms.empty() && std::ranges::all_of(terms, [](const auto& term) { return term.rounds; });
}

std::vector<PlacedTerm> place_terms(const std::vector<LowRankTerm>& terms, int64_t width, int64_t begin) {
  std::vector<PlacedTerm> placed;
  for (const auto& term : terms) placed.push_back({const_cast<LowRankTerm*>(&term), begin, width});
  return placed;
}

void project_rounded(const Tensor& x, const std::vector<PlacedTerm>& placed) {
  round_factors(placed, x.scalar_type());
  project(x, placed);
}

void add_rounded_updates(const Tensor& y, const Tensor& x, const std::vector<PlacedTerm>& placed) {
  if (placed.empty()) return;
  project_rounded(x, placed);
  for (const auto& [term, begin, width] : placed)
    add_product_(y.narrow(1, begin, width), term->projected, term->rounded_b, false);
}

RoundedGradients::RoundedGradients(const Tensor& dy, std::vector<PlacedTerm> placed)
    : dy_(dy), placed_(std::move(placed)), together_(none_drops(placed_)) {
  dprojected_ = at::empty({dy.size(0), sum_of_ranks(placed_)}, dy.options());
  int64_t begin = 0;
  for (size_t i = 0; i < placed_.size(); ++i) {
    ranks_begin_.push_back(begin);
    begin += rank_of(placed_[i]);
    auto part = projected_gradient(i);
    at::mm_out(part, columns(i), placed_[i].term->rounded_b);
  }
}

Tensor RoundedGradients::columns(size_t i) const { return dy_.narrow(1, placed_[i].begin, placed_[i].width); }
Tensor RoundedGradients::projected_gradient(size_t i) const {
  return dprojected_.narrow(1, ranks_begin_[i], rank_of(placed_[i]));
}

bool RoundedGradients::drop_alike() const {
  const auto& first = *placed_.front().term;
  return first.dropout > 0 && std::ranges::all_of(placed_, [&](const auto& each) {
           return each.term->dropout == first.dropout && rank_of(each) == first.a.size(0);
         });
}

cuda::LowRankUpdate RoundedGradients::input_update(const Tensor& dx) const {
  if (placed_.empty() || !cuda::supports_swiglu_update(dx, dprojected_.size(1))) return {};
  if (together_) return {dprojected_, all_rounded_a(placed_)};
  if (placed_.size() > 1) return {};
  const auto& term = *placed_.front().term;
  return {dprojected_, term.rounded_a, term.dropout, term.dropout_mask};
}

void RoundedGradients::add_to_input(const Tensor& dx) const {
  if (placed_.empty()) return;
  if (together_) {
    add_product_(dx, dprojected_, all_rounded_a(placed_), true);
    return;
  }
  if (cuda::supports_dropped_add(dx, rank_of(placed_.front()), static_cast<int64_t>(placed_.size())) && drop_alike()) {
    TensorList draws;
    for (const auto& each : placed_) draws.push_back(each.term->dropout_mask);
    cuda::add_dropped_updates_(dx, dprojected_, all_rounded_a(placed_), placed_.front().term->dropout, draws);
    return;
  }
  for (size_t i = 0; i < placed_.size(); ++i) {
    const auto& term = *placed_[i].term;
    if (term.dropout > 0)
      cuda::add_dropped_(dx, at::mm(projected_gradient(i), term.rounded_a), term.dropout, term.dropout_mask);
    else
      add_product_(dx, projected_gradient(i), term.rounded_a, true);
  }
}

std::vector<std::pair<Tensor, Tensor>> RoundedGradients::of_factors(const Tensor& x) const {
  std::vector<std::pair<Tensor, Tensor>> found(placed_.size());
  const bool wants_a = std::ranges::any_of(placed_, [](const auto& each) { return each.term->a.requires_grad(); });
  Tensor all_a = together_ && wants_a ? mm_in_float32(dprojected_.t(), x) : Tensor();
  const double scale = placed_.empty() ? 1 : placed_.front().term->scale;
  const bool scales_once =
      all_a.defined() && std::ranges::all_of(placed_, [&](const auto& each) { return each.term->scale == scale; });
  if (scales_once) all_a.mul_(scale);
  for (size_t i = 0; i < placed_.size(); ++i) {
    const auto& term = *placed_[i].term;
    auto& [da, db] = found[i];
    if (term.b.requires_grad()) db = mm_in_float32(columns(i).t(), term.projected);
    if (!term.a.requires_grad()) continue;
    if (together_)
      da = all_a.narrow(0, ranks_begin_[i], rank_of(placed_[i]));
    else
      da = mm_in_float32(projected_gradient(i).t(), term.dropout > 0 ? cuda::drop_again(x, term.dropout, term.dropout_mask) : x);
    if (!scales_once) da.mul_(term.scale);
  }
  return found;
}

}  // namespace hone::ops
