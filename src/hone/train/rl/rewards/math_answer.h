// What a text gives as its mathematical answer, and whether two of them mean the same. Made to agree with math-verify, which
// ms-swift asks: docs/reinforcement.md says where it does not.
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

// Everything a text may give: what is boxed, else in LaTeX, else the last number.
std::optional<MathAnswer> find_answer(std::string_view text);
// What a text marks as its answer: boxed, or in LaTeX behind the word "answer".
std::optional<MathAnswer> find_marked_answer(std::string_view text);

bool same_answer(const MathAnswer& gold, const MathAnswer& answer);

}  // namespace hone::train::rl
