// Arithmetic expressions of real numbers, and whether two have the same value.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace hone::train::rl {

// An expression tree over real numbers. Unknowns map variables to values.
class MathExpression {
 public:
  using Unknowns = std::map<std::string, double>;
  using Compute = double (*)(const std::vector<double>& operands);

  static MathExpression number(double value);
  static MathExpression unknown(std::string name);
  static MathExpression apply(Compute compute, std::vector<MathExpression> operands);

  double value(const Unknowns& unknowns) const;  // NaN where it has none
  void list_unknowns(Unknowns& into) const;
  bool is_unknown() const { return !name_.empty(); }
  bool is_number() const { return name_.empty() && !compute_; }

 private:
  double number_ = 0;
  std::string name_;
  Compute compute_ = nullptr;
  std::vector<MathExpression> operands_;
};

// Whether both have the same value for all variables, to six decimals. Evaluates them at a few points.
bool same_everywhere(const MathExpression& one, const MathExpression& other);

}  // namespace hone::train::rl
