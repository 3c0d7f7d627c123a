#include "hone/train/rl/rewards/math_expression.h"

#include <cmath>

#include "hone/base/rng.h"

namespace hone::train::rl {

MathExpression MathExpression::number(double value) {
  MathExpression made;
  made.number_ = value;
  return made;
}

MathExpression MathExpression::unknown(std::string name) {
  MathExpression made;
  made.name_ = std::move(name);
  return made;
}

MathExpression MathExpression::apply(Compute compute, std::vector<MathExpression> operands) {
  MathExpression made;
  made.compute_ = compute;
  made.operands_ = std::move(operands);
  return made;
}

double MathExpression::value(const Unknowns& unknowns) const {
  if (is_unknown()) return unknowns.at(name_);
  if (!compute_) return number_;
  std::vector<double> values;
  for (const auto& operand : operands_) values.push_back(operand.value(unknowns));
  return compute_(values);
}

void MathExpression::list_unknowns(Unknowns& into) const {
  if (is_unknown()) into.emplace(name_, 0);
  for (const auto& operand : operands_) operand.list_unknowns(into);
}

bool same_everywhere(const MathExpression& one, const MathExpression& other) {
  constexpr int kPoints = 6;
  constexpr double kSixDecimals = 1e-6, kRounding = 1e-12;
  MathExpression::Unknowns unknowns;
  one.list_unknowns(unknowns);
  other.list_unknowns(unknowns);
  Rng points(7);
  int compared = 0;
  for (int point = 0; point < (unknowns.empty() ? 1 : kPoints); ++point) {
    for (auto& [name, value] : unknowns) value = 0.25 + 2 * points.uniform();
    double a = one.value(unknowns), b = other.value(unknowns);
    if (std::isnan(a) || std::isnan(b)) continue;
    ++compared;
    if (a != b && !(std::fabs(a - b) < kSixDecimals + kRounding * std::fabs(a))) return false;
  }
  return compared > 0;
}

}  // namespace hone::train::rl
