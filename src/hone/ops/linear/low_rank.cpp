#include "hone/ops/linear/low_rank.h"

#include "hone/ops/cpu/dropout.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/linear/rounded_low_rank.h"

namespace hone::ops {
namespace {

// Adapters are often float32 on a 16-bit base; their part is then computed in float32 and rounded once.
Tensor dropped(const Tensor& x, const LowRankTerm& term) {
  auto cast = x.to(term.a.scalar_type());
  return term.dropout_mask.defined() ? cast * term.dropout_mask : cast;
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
  for (auto& term : terms) {
    term.projected = matmul_nt(dropped(x, term), term.a);
    if (y.scalar_type() != term.a.scalar_type()) y = y.to(term.a.scalar_type());
    y.addmm_(term.projected, term.b.t(), 1.0, term.scale);
  }
  return y.to(x.scalar_type());
}

Tensor low_rank_unread(const Tensor& x, const Tensor& weight, std::vector<LowRankTerm>& terms) {
  if (all_round(terms))
    project_rounded(x, place_terms(terms, weight.size(0)));
  else
    for (auto& term : terms) term.projected = matmul_nt(dropped(x, term), term.a);
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
  if (needs.bias) grads.bias = dy.sum(0);
  if (all_round(terms)) return grads;
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
