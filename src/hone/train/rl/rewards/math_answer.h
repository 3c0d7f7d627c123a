// Parses and compares mathematical answers. Agrees with math-verify, which ms-swift uses, except where docs/reinforcement.md says
// otherwise.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/train/rl/rewards/math_expression.h"

namespace hone::train::rl {

struct MathAnswer {
  enum class Shape { value, set, row, relation };
  Shape shape = Shape::value;
  std::optional<MathExpression> value;
  bool percent = false;
  std::string sign;               // of a relation: =, <, <= …; of a row its brackets: "[)"
  std::vector<MathAnswer> parts;  // of a set, a row or a relation
};

// All candidate answers of a text: boxed, otherwise in LaTeX, otherwise the last number.
std::optional<MathAnswer> find_answer(std::string_view text);
// Answers that a text marks as such: boxed, or in LaTeX after the word "answer".
std::optional<MathAnswer> find_marked_answer(std::string_view text);

bool same_answer(const MathAnswer& gold, const MathAnswer& answer);

}  // namespace hone::train::rl
