// Where a text gives its mathematical answer: boxed, in a formula, as a number. A model may have written it, so that each search
// reads the text a bounded number of times, whatever stands there.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hone::train::rl {

// The content of the last box where it stands in a formula; of boxes that stand in the text, all together.
std::optional<std::string> boxed_answer(std::string_view text);
// $…$, $$…$$, \(…\), \[…\]: the last of them.
std::optional<std::string> last_formula(std::string_view text);
// The first formula behind the last "answer" that has one near.
std::optional<std::string> formula_behind_answer(std::string_view text);
std::optional<std::string> last_number(std::string_view text);
// Letters side by side that are no command of LaTeX: a sentence, not a formula.
bool holds_words(std::string_view text);

// Without blanks around it and full stops behind it.
std::string answer_trimmed(std::string_view text);
bool is_digit_at(std::string_view text, size_t at);
// Where the number that begins with the digit at `at` ends: 1234, 1,234.5.
size_t number_end(std::string_view text, size_t at);
// Where a fraction's denominator ends, if one follows a number that ends at `end`.
size_t fraction_end(std::string_view text, size_t end);

}  // namespace hone::train::rl
