#include "hone/ops/linear/low_rank.h"

#include <algorithm>

#include "hone/ops/column_sums.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/dropout.h"
#include "hone/ops/cpu/gemm/panel_gemm.h"
#include "hone/ops/cpu/gemm/skinny_gemm.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/linear/rounded_low_rank.h"

namespace hone::ops {
namespace {

// Adapters are often float32 on a 16-bit base; their part is then computed in float32 and rounded once.
Tensor dropped(const Tensor& x, const LowRankTerm& term) {
  if (term.dropout_mask.defined() && cpu::supports(x) && term.dropout_mask.scalar_type() == at::kFloat)
    return cpu::masked(x, term.dropout_mask);
  auto cast = x.to(term.a.scalar_type());
  return term.dropout_mask.defined() ? cast * term.dropout_mask : cast;
}

// Whether panel GEMM reads activations of any type and adds the only update to a 16-bit y itself: no copies in float32.
bool adds_in_panels(const Tensor& x, const std::vector<LowRankTerm>& terms) {
  if (!cpu::prefers_panel_gemm(at::kFloat) || !cpu::supports(x) || cpu::is_skinny(x) || x.numel() == 0) return false;
  if (terms.size() != 1 && x.scalar_type() != at::kFloat) return false;  // several updates are rounded once
  return std::ranges::all_of(
      terms, [](const auto& term) { return term.a.scalar_type() == at::kFloat && term.b.scalar_type() == at::kFloat; });
}

// scale * a b in float32.
Tensor panel_product(const Tensor& a, const Tensor& b, double scale = 1.0) {
  auto product = at::empty({a.size(0), b.size(1)}, at::TensorOptions(at::kFloat));
  cpu::panel_gemm(a, b, cpu::PanelUpdate{.scale = scale}, product);
  return product;
}

Tensor masked_or_same(const Tensor& x, const LowRankTerm& term) { return term.dropout_mask.defined() ? dropped(x, term) : x; }

// drop(x) A^T
Tensor projected(const Tensor& x, const LowRankTerm& term, bool in_panels) {
  return in_panels ? panel_product(masked_or_same(x, term), term.a.t()) : matmul_nt(dropped(x, term), term.a);
}

void add_gradients_in_panels(LinearGradients& grads, const Tensor& dy, const Tensor& x, const std::vector<LowRankTerm>& terms,
                             bool needs_x) {
  for (const auto& term : terms) {
    const auto dprojected = panel_product(dy, term.b, term.scale);
    auto& [da, db] = grads.terms.emplace_back();
    if (term.a.requires_grad()) da = panel_product(dprojected.t(), masked_or_same(x, term));
    if (term.b.requires_grad()) db = panel_product(dy.t(), term.projected, term.scale);
    if (needs_x) cpu::panel_gemm(dprojected, term.a, cpu::PanelUpdate{.mask = term.dropout_mask, .adds = true}, grads.x);
  }
}

}  // namespace

std::vector<LowRankTerm> low_rank_terms(const Tensor& x, const std::vector<LoraWeights>& adapters, bool training) {
  std::vector<LowRankTerm> terms;
  for (const auto& adapter : adapters) {
    if (!adapter.active) continue;
    LowRankTerm term{.a = adapter.a, .b = adapter.b, .scale = adapter.scale, .rounds = supports_rounded(x, adapter)};
    if (term.rounds) {
      term.dropout = training ? adapter.dropout : 0;
    } else if (training && adapter.dropout > 0) {
      double kept = 1.0 - adapter.dropout;
      term.dropout_mask = at::empty({x.numel() / x.size(-1), x.size(-1)}, x.options().dtype(adapter.a.scalar_type()));
      if (x.is_cpu() && term.dropout_mask.scalar_type() == at::kFloat)
        cpu::fill_dropout_mask(term.dropout_mask, kept);
      else
        term.dropout_mask.bernoulli_(kept).div_(kept);
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

Tensor low_rank_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, std::vector<LowRankTerm>& terms,
                        const Float8Weight& float8) {
  auto y = base_product(x, weight, float8, bias);
  if (all_round(terms)) {
    add_rounded_updates(y, x, place_terms(terms, y.size(1)));
    return y;
  }
  const bool in_panels = adds_in_panels(x, terms);
  for (auto& term : terms) {
    term.projected = projected(x, term, in_panels);
    if (in_panels) {
      cpu::panel_gemm(term.projected, term.b.t(), cpu::PanelUpdate{.scale = term.scale, .adds = true}, y);
      continue;
    }
    if (y.scalar_type() != term.a.scalar_type()) y = y.to(term.a.scalar_type());
    y.addmm_(term.projected, term.b.t(), 1.0, term.scale);
  }
  return y.to(x.scalar_type());
}

Tensor low_rank_unread(const Tensor& x, const Tensor& weight, std::vector<LowRankTerm>& terms) {
  if (all_round(terms))
    project_rounded(x, place_terms(terms, weight.size(0)));
  else
    for (auto& term : terms) term.projected = projected(x, term, adds_in_panels(x, terms));
  return at::empty({x.size(0), weight.size(0)}, x.options());
}

LinearGradients low_rank_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const std::vector<LowRankTerm>& terms,
                                  const NeedsGrad& needs, const Float8Weight& float8) {
  LinearGradients grads;
  if (all_round(terms)) {
    RoundedGradients rounded(dy, place_terms(terms, dy.size(1)));
    if (needs.x) rounded.add_to_input(grads.x = base_gradient(dy, weight, float8));
    grads.terms = rounded.of_factors(x);
  }
  if (needs.x && !grads.x.defined()) grads.x = base_gradient(dy, weight, float8);
  if (needs.weight) grads.weight = matmul_tn(dy, x);
  if (needs.bias) grads.bias = column_sums(dy);
  if (all_round(terms)) return grads;
  if (adds_in_panels(dy, terms)) {
    add_gradients_in_panels(grads, dy, x, terms, needs.x);
    return grads;
  }
  for (const auto& term : terms) {
    auto dy_cast = dy.to(term.a.scalar_type());
    auto dprojected = matmul_nn(dy_cast, term.b).mul_(term.scale);
    auto& [da, db] = grads.terms.emplace_back();
    if (term.a.requires_grad()) da = matmul_tn(dprojected, dropped(x, term));
    if (term.b.requires_grad()) db = matmul_tn(dy_cast, term.projected).mul_(term.scale);
    if (!needs.x) continue;
    if (grads.x.scalar_type() != term.a.scalar_type()) grads.x = grads.x.to(term.a.scalar_type());
    if (term.dropout_mask.defined()) {
      grads.x.add_(matmul_nn(dprojected, term.a).mul_(term.dropout_mask));
    } else {
      grads.x.addmm_(dprojected, term.a);
    }
  }
  if (needs.x) grads.x = grads.x.to(dy.scalar_type());
  return grads;
}

}  // namespace hone::ops
