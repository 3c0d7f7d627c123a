#include "hone/ops/linear/low_rank_node.h"

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

NeedsGrad LowRankNode::needs(bool x) const { return {x, weight.requires_grad(), bias.defined() && bias.requires_grad()}; }

void LowRankNode::save(AutogradContext* ctx, TensorList activations, const std::vector<LowRankTerm>& computed) const {
  variable_list saved(activations.begin(), activations.end());
  saved.insert(saved.end(), {weight, bias, float8.by_outputs, float8.output_scales, float8.by_inputs, float8.input_scales});
  append_terms(saved, computed);
  ctx->save_for_backward(std::move(saved));
  save_numbers(ctx, {computed});
}

LowRankNode LowRankNode::restore(AutogradContext* ctx, TensorList& activations, size_t activation_count) {
  auto saved = ctx->get_saved_variables();
  activations.assign(saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(activation_count));
  const auto own = saved.begin() + static_cast<std::ptrdiff_t>(activation_count);
  LowRankNode node{own[0], own[1], {}, {own[2], own[3], own[4], own[5]}};
  node.terms = std::move(restored_terms(ctx, saved, activation_count + 6).front());
  return node;
}

void append_terms(variable_list& saved, const std::vector<LowRankTerm>& terms) {
  for (const auto& term : terms)
    saved.insert(saved.end(), {term.a, term.b, term.dropout_mask, term.projected, term.rounded_a, term.rounded_b});
}

void save_numbers(AutogradContext* ctx, const std::vector<std::vector<LowRankTerm>>& of_layers) {
  std::vector<double> numbers;
  std::vector<int64_t> counts;
  for (const auto& terms : of_layers) {
    counts.push_back(static_cast<int64_t>(terms.size()));
    for (const auto& term : terms) numbers.insert(numbers.end(), {term.scale, term.dropout, term.rounds ? 1.0 : 0.0});
  }
  ctx->saved_data["numbers"] = numbers;
  ctx->saved_data["counts"] = counts;
}

std::vector<std::vector<LowRankTerm>> restored_terms(AutogradContext* ctx, const variable_list& saved, size_t next) {
  auto numbers = ctx->saved_data["numbers"].toDoubleVector();
  std::vector<std::vector<LowRankTerm>> of_layers;
  size_t number = 0;
  for (int64_t count : ctx->saved_data["counts"].toIntVector()) {
    auto& terms = of_layers.emplace_back();
    for (int64_t i = 0; i < count; ++i, next += 6, number += 3)
      terms.push_back({.a = saved[next],
                       .b = saved[next + 1],
                       .scale = numbers[number],
                       .dropout_mask = saved[next + 2],
                       .projected = saved[next + 3],
                       .rounds = numbers[number + 2] != 0,
                       .dropout = numbers[number + 1],
                       .rounded_a = saved[next + 4],
                       .rounded_b = saved[next + 5]});
  }
  return of_layers;
}

}  // namespace hone::ops
