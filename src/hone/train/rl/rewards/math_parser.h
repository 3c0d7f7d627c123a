// Parses arithmetic expressions in plain text or LaTeX: numbers, fractions, roots, powers, functions, variables.
#pragma once
#include <optional>
#include <string_view>

#include "hone/train/rl/rewards/math_expression.h"

namespace hone::train::rl {

// Longer expressions are rejected: a model may repeat itself without end.
inline constexpr size_t kLongestMath = 2048;  // bytes

// Empty if the full text is not an arithmetic expression.
std::optional<MathExpression> parse_math(std::string_view text);

}  // namespace hone::train::rl
