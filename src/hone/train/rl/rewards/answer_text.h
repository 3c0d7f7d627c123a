// Finds the mathematical answer in a text: boxed, in a formula, as a number. The text is untrusted model output, so each search
// reads it a bounded number of times.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hone::train::rl {

// The content of the last box if it is in a formula; otherwise of all boxes in the text.
std::optional<std::string> boxed_answer(std::string_view text);
// $…$, $$…$$, \(…\), \[…\]: the last of them.
std::optional<std::string> last_formula(std::string_view text);
// The first formula after the last "answer" that has one nearby.
std::optional<std::string> formula_after_answer(std::string_view text);
std::optional<std::string> last_number(std::string_view text);
// Consecutive letters that are not a LaTeX command: a sentence, not a formula.
bool holds_words(std::string_view text);

// Without surrounding whitespace and trailing full stops.
std::string answer_trimmed(std::string_view text);
bool is_digit_at(std::string_view text, size_t at);
// Where the number that begins with the digit at `at` ends: 1234, 1,234.5.
size_t number_end(std::string_view text, size_t at);
// Where a fraction's denominator ends, if one follows a number that ends at `end`.
size_t fraction_end(std::string_view text, size_t end);

}  // namespace hone::train::rl
