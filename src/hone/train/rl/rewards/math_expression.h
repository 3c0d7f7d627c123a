// Arithmetic as answers write it, plain or in LaTeX: numbers, fractions, roots, powers, functions, unknowns.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::train::rl {

// A tree over real numbers. Unknowns are values by name.
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

// What a model writes without end is no answer.
inline constexpr size_t kLongestMath = 2048;  // bytes

// Nothing where the text is no arithmetic from end to end.
std::optional<MathExpression> parse_math(std::string_view text);

// Whether both have the same value wherever their unknowns are, to six decimals. Decided by trying a few places.
bool same_everywhere(const MathExpression& one, const MathExpression& other);

}  // namespace hone::train::rl
