#include "hone/train/rl/rewards/math_answer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "hone/base/strings/replace_all.h"
#include "hone/train/rl/rewards/answer_text.h"
#include "hone/train/rl/rewards/math_parser.h"

namespace hone::train::rl {
namespace {

using Shape = MathAnswer::Shape;

// Position of the brace that closes the one at `open`.
size_t matching_brace(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '{')
      ++depth;
    else if (text[i] == '}' && --depth == 0)
      return i;
  }
  return text.npos;
}

// \text{ or } separates; every other \text is a unit or a remark.
void leave_out_words(std::string& text) {
  for (std::string_view command : {"\\text{", "\\textbf{", "\\mathrm{", "\\mbox{", "\\operatorname{"})
    for (size_t at = text.find(command); at != text.npos; at = text.find(command)) {
      size_t open = at + command.size() - 1, close = matching_brace(text, open);
      if (close == text.npos) return;
      auto inside = answer_trimmed(std::string_view(text).substr(open + 1, close - open - 1));
      text.replace(at, close + 1 - at, inside == "or" || inside == "and" ? "," : " ");
    }
}

bool is_grouped_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.find(',') != text.npos && is_digit_at(text, 0) && number_end(text, 0) == text.size();
}

// Normalizes equivalent spellings and removes formatting.
std::string plainly(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 35> kSpellings = {{
      {"\\left", ""},
      {"\\right", ""},
      {"\\!", ""},
      {"\\,", " "},
      {"\\;", " "},
      {"\\:", " "},
      {"\\ ", " "},
      {"~", " "},
      {"\\$", ""},
      {"$", ""},
      {"\\%", "%"},
      {"{,}", ""},
      {"\\dfrac", "\\frac"},
      {"\\tfrac", "\\frac"},
      {"\\cfrac", "\\frac"},
      {"^{\\circ}", ""},
      {"^\\circ", ""},
      {"\\degree", ""},
      {"\\leq", "\\le"},
      {"\\geq", "\\ge"},
      {"\\le", "<="},
      {"\\ge", ">="},
      {"\\lt", "<"},
      {"\\gt", ">"},
      {"\\neq", "!="},
      {"\\ne", "!="},
      {"\\displaystyle", ""},
      {"\\quad", " "},
      {"\\approx", "="},
      {"\\lbrace", "\\{"},
      {"\\rbrace", "\\}"},
      {"−", "-"},
      {"×", "*"},
      {"π", "\\pi"},
      {"∞", "\\infty"},
  }};
  leave_out_words(text);
  for (const auto& [what, by] : kSpellings) text = replace_all(std::move(text), what, by);
  return answer_trimmed(text);
}

// Splits at delimiters outside brackets. `begins` returns the length of a delimiter at a position, 0 for none.
template <class Begins>
std::vector<std::string> split_outside(std::string_view text, Begins begins) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t i = 0; i < text.size();) {
    bool escaped = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '}');
    char c = escaped ? text[i + 1] : text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    size_t length = depth == 0 ? begins(text.substr(i)) : 0;
    if (length > 0)
      parts.emplace_back(), i += length;
    else
      parts.back() += text.substr(i, escaped ? 2 : 1), i += escaped ? 2 : 1;
  }
  return parts;
}

std::vector<std::string> split_at_commas(std::string_view text) {
  if (is_grouped_number(text)) return {std::string(text)};
  return split_outside(text, [](std::string_view rest) -> size_t { return rest[0] == ',' || rest[0] == ';' ? 1 : 0; });
}

std::optional<MathAnswer> read_answer(const std::string& text, int depth = 0);

std::optional<MathAnswer> read_parts(const std::vector<std::string>& texts, Shape shape, std::string sign, int depth) {
  MathAnswer answer{shape, {}, false, std::move(sign), {}};
  for (const auto& text : texts) {
    auto part = read_answer(answer_trimmed(text), depth + 1);
    if (!part) return std::nullopt;
    answer.parts.push_back(std::move(*part));
  }
  return answer;
}

// (1, 2), [0, 1), {1, 2}: if the first bracket closes at the end.
std::optional<MathAnswer> read_bracketed(const std::string& text, int depth) {
  bool set = text.starts_with("\\{") && text.ends_with("\\}");
  bool row = text.size() > 1 && (text[0] == '(' || text[0] == '[') && (text.back() == ')' || text.back() == ']');
  if (!set && !row) return std::nullopt;
  size_t width = set ? 2 : 1;
  auto inside = text.substr(width, text.size() - 2 * width);
  auto parts = split_at_commas(inside);
  if (!set && (parts.size() < 2 || std::ranges::count(inside, '(') != std::ranges::count(inside, ')'))) return std::nullopt;
  return read_parts(parts, set ? Shape::set : Shape::row, set ? "" : std::string{text.front(), text.back()}, depth);
}

size_t relation_sign(std::string_view rest) {
  for (std::string_view sign : {"<=", ">=", "!=", "\\in", "=", "<", ">"})
    if (rest.starts_with(sign) && !(sign == "\\in" && rest.starts_with("\\inf"))) return sign.size();
  return 0;
}

std::optional<MathAnswer> read_relation(const std::string& text, int depth) {
  auto sides = split_outside(text, relation_sign);
  if (sides.size() < 2) return std::nullopt;
  auto sign = answer_trimmed(
      std::string_view(text).substr(sides[0].size(), relation_sign(std::string_view(text).substr(sides[0].size()))));
  if (sign == "\\in") sign = "=";
  if (sign == "=") sides.erase(sides.begin() + 1, sides.end() - 1);  // a chain of equations has the value of its last part
  return read_parts(sides, Shape::relation, sign, depth);
}

// "5 cm": words after a number, separated by a space.
std::string without_unit(const std::string& text) {
  size_t begin = text.starts_with('-') ? 1 : 0;
  if (!is_digit_at(text, begin)) return text;
  size_t end = fraction_end(text, number_end(text, begin));
  if (end >= text.size() || text[end] != ' ') return text;
  auto unit = answer_trimmed(std::string_view(text).substr(end));
  auto belongs = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '^' || c == ' '; };
  return !unit.empty() && std::isalpha(static_cast<unsigned char>(unit[0])) && std::ranges::all_of(unit, belongs)
             ? text.substr(0, end)
             : text;
}

std::optional<MathAnswer> read_answer(const std::string& text, int depth) {
  if (text.empty() || depth > 8) return std::nullopt;
  if (auto relation = read_relation(text, depth)) return relation;
  if (size_t both = text.find("\\pm");
      both != text.npos && (both + 3 == text.size() || !std::isalpha(static_cast<unsigned char>(text[both + 3])))) {
    auto plus = text, minus = text;
    plus.replace(both, 3, "+"), minus.replace(both, 3, "-");
    return read_parts({plus, minus}, Shape::set, "", depth);
  }
  if (auto parts = split_outside(text, [](std::string_view rest) -> size_t { return rest.starts_with("\\cup") ? 4 : 0; });
      parts.size() > 1)
    return read_parts(parts, Shape::set, "", depth);
  if (auto bracketed = read_bracketed(text, depth)) return bracketed;
  if (auto parts = split_at_commas(text); parts.size() > 1) return read_parts(parts, Shape::set, "", depth);
  auto number = without_unit(text);
  if (is_grouped_number(number)) std::erase(number, ',');
  MathAnswer answer{Shape::value, parse_math(number), text.ends_with('%'), "", {}};
  if (!answer.value) return std::nullopt;
  return answer;
}

std::optional<MathAnswer> read_text(const std::string& text) {
  if (text.size() > kLongestMath) return std::nullopt;
  return read_answer(plainly(text));
}

// The value that an equation assigns to its left side.
const MathAnswer& given_value(const MathAnswer& answer) {
  return answer.shape == Shape::relation && answer.sign == "=" && answer.parts.size() == 2 ? answer.parts.back() : answer;
}

bool same_value(const MathAnswer& gold, const MathAnswer& answer) {
  if (same_everywhere(*gold.value, *answer.value)) return true;
  if (gold.percent == answer.percent) return false;
  auto hundredfold = [](const MathAnswer& one) {
    return MathExpression::apply([](const std::vector<double>& x) { return x[0] * 100; }, {*one.value});
  };
  return gold.percent ? same_everywhere(hundredfold(gold), *answer.value) : same_everywhere(*gold.value, hundredfold(answer));
}

bool same_row(const std::vector<MathAnswer>& gold, const std::vector<MathAnswer>& answer) {
  return std::ranges::equal(gold, answer, same_answer);
}

bool same_set(const std::vector<MathAnswer>& gold, const std::vector<MathAnswer>& answer) {
  auto holds = [](const std::vector<MathAnswer>& all, const MathAnswer& one) {
    return std::ranges::any_of(all, [&](const auto& each) { return same_answer(each, one); });
  };
  return std::ranges::all_of(gold, [&](const auto& each) { return holds(answer, each); }) &&
         std::ranges::all_of(answer, [&](const auto& each) { return holds(gold, each); });
}

bool same_relation(const MathAnswer& gold, const MathAnswer& answer) {
  auto swapped = answer;
  std::ranges::reverse(swapped.parts);
  std::ranges::replace(swapped.sign, '<', '\1');
  std::ranges::replace(swapped.sign, '>', '<');
  std::ranges::replace(swapped.sign, '\1', '>');
  return (gold.sign == answer.sign && same_row(gold.parts, answer.parts)) ||
         (gold.sign == swapped.sign && same_row(gold.parts, swapped.parts));
}

}  // namespace

std::optional<MathAnswer> find_answer(std::string_view text) {
  if (auto boxed = boxed_answer(text))
    if (auto answer = read_text(*boxed)) return answer;
  if (auto formula = last_formula(text))
    if (auto answer = read_text(*formula)) return answer;
  if (!holds_words(text))
    if (auto answer = read_text(std::string(text))) return answer;
  if (auto number = last_number(text)) return read_text(*number);
  return std::nullopt;
}

std::optional<MathAnswer> find_marked_answer(std::string_view text) {
  if (auto boxed = boxed_answer(text)) return read_text(*boxed);
  auto formula = formula_after_answer(text);
  return formula ? read_text(*formula) : std::nullopt;
}

bool same_answer(const MathAnswer& gold, const MathAnswer& answer) {
  if (gold.shape == Shape::relation && answer.shape == Shape::relation) return same_relation(gold, answer);
  const auto &one = given_value(gold), &other = given_value(answer);
  if (one.shape != other.shape) return false;
  switch (one.shape) {
    case Shape::value:
      return same_value(one, other);
    case Shape::set:
      return same_set(one.parts, other.parts);
    case Shape::row:
      return one.sign == other.sign && same_row(one.parts, other.parts);
    case Shape::relation:
      return same_relation(one, other);
  }
  return false;
}

}  // namespace hone::train::rl
