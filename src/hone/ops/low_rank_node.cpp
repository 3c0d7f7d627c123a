#include "hone/ops/low_rank_node.h"

namespace hone::ops {

void LowRankNode::append_inputs(TensorList& inputs) const {
  inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
  for (const auto& term : terms) inputs.insert(inputs.end(), {term.a, term.b});
}

void LowRankNode::append_gradients(const LinearGradients& found, variable_list& result) const {
  result.push_back(found.weight);
  if (bias.defined()) result.push_back(found.bias);
  for (const auto& [da, db] : found.terms) result.insert(result.end(), {da, db});
  result.emplace_back();  // for the node itself, which is an argument of `apply` too
}

bool LowRankNode::needs_input_values() const {
  return weight.requires_grad() || std::ranges::any_of(terms, [](const auto& term) { return term.a.requires_grad(); });
}

LinearNeeds LowRankNode::needs(bool x) const { return {x, weight.requires_grad(), bias.defined() && bias.requires_grad()}; }

void LowRankNode::save(AutogradContext* ctx, TensorList activations, const std::vector<LowRankTerm>& computed) const {
  variable_list saved(activations.begin(), activations.end());
  saved.insert(saved.end(), {weight, bias});
  std::vector<double> scales;
  for (const auto& term : computed) {
    saved.insert(saved.end(), {term.a, term.b, term.keep, term.projected});
    scales.push_back(term.scale);
  }
  ctx->save_for_backward(std::move(saved));
  ctx->saved_data["scales"] = scales;
}

LowRankNode LowRankNode::restore(AutogradContext* ctx, TensorList& activations, size_t activation_count) {
  auto saved = ctx->get_saved_variables();
  activations.assign(saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(activation_count));
  size_t next = activation_count;
  LowRankNode node{saved[next], saved[next + 1], {}};
  next += 2;
  for (double scale : ctx->saved_data["scales"].toDoubleVector()) {
    node.terms.push_back({saved[next], saved[next + 1], scale, saved[next + 2], saved[next + 3]});
    next += 4;
  }
  return node;
}

}  // namespace hone::ops
