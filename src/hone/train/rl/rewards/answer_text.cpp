#include "hone/train/rl/rewards/answer_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <utility>
#include <vector>

#include "hone/train/rl/rewards/math_expression.h"
#include "hone/train/rl/rewards/math_parser.h"

namespace hone::train::rl {
namespace {

struct Boxed {
  size_t at;
  std::string_view content;
  bool in_formula;
};

// Whether a position is inside a formula, by the delimiters before it.
struct FormulaState {
  bool dollars = false, round = false, square = false;

  void pass(std::string_view text, size_t at) {
    if (text[at] == '$' && (at == 0 || text[at - 1] != '\\')) dollars = !dollars;
    if (text[at] != '\\' || at + 1 == text.size()) return;
    const char next = text[at + 1];
    if (next == '(' || next == ')') round = next == '(';
    if (next == '[' || next == ']') square = next == '[';
  }
  bool inside() const { return dollars || round || square; }
};

std::vector<Boxed> boxes_in(std::string_view text) {
  constexpr std::string_view kBox = "\\boxed{";
  struct Open {
    size_t at;
    bool box, in_formula;
  };
  std::vector<Open> open;
  std::vector<Boxed> boxes;
  FormulaState formula;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool box = text.substr(i).starts_with(kBox);
    if (box) open.push_back({i, true, formula.inside()});
    formula.pass(text, i);
    if (box)
      i += kBox.size() - 1;
    else if (text[i] == '\\' && i + 1 < text.size())
      formula.pass(text, ++i);
    else if (text[i] == '{')
      open.push_back({i, false, false});
    else if (text[i] == '}' && !open.empty()) {
      auto [at, is_box, in_formula] = open.back();
      open.pop_back();
      if (is_box) boxes.push_back({at, text.substr(at + kBox.size(), i - at - kBox.size()), in_formula});
    }
  }
  std::ranges::sort(boxes, {}, &Boxed::at);
  return boxes;
}

using Marks = std::pair<std::string_view, std::string_view>;
constexpr std::array<Marks, 4> kFormulas = {{{"$$", "$$"}, {"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}}};

// The first formula that starts at or after `at`, and its end.
class FormulaFinder {
 public:
  explicit FormulaFinder(std::string_view text) : text_(text) {}

  std::optional<std::string> next() {
    while (at_ < text_.size()) {
      auto inside = here();
      if (inside && !inside->empty()) return inside;
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> here() {
    const size_t at = at_++;
    if (at > 0 && text_[at - 1] == '\\') return std::nullopt;
    for (size_t i = 0; i < kFormulas.size(); ++i) {
      const auto [begin, end] = kFormulas[i];
      if (never_closed_[i] || !text_.substr(at).starts_with(begin)) continue;
      const size_t first = at + begin.size(), close = text_.find(end, first);
      if (never_closed_[i] = close == text_.npos; never_closed_[i]) continue;
      at_ = close + end.size();
      return answer_trimmed(text_.substr(first, close - first));
    }
    return std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::array<bool, kFormulas.size()> never_closed_{};
};

size_t digits_end(std::string_view text, size_t at) {
  while (is_digit_at(text, at)) ++at;
  return at;
}

}  // namespace

std::optional<std::string> boxed_answer(std::string_view text) {
  auto boxes = boxes_in(text);
  if (boxes.empty()) return std::nullopt;
  if (boxes.back().in_formula) return std::string(boxes.back().content);
  std::vector<std::string_view> contents;
  std::string joined;
  for (const auto& box : boxes) {
    if (joined.size() > kLongestMath) break;  // no longer an answer
    if (box.in_formula || std::ranges::count(contents, box.content)) continue;
    contents.push_back(box.content);
    joined.append(joined.empty() ? "" : ",").append(box.content);
  }
  return joined;
}

std::optional<std::string> last_formula(std::string_view text) {
  std::optional<std::string> found;
  FormulaFinder formulas(text);
  while (auto formula = formulas.next()) found = std::move(formula);
  return found;
}

std::optional<std::string> formula_after_answer(std::string_view text) {
  constexpr size_t kNear = 60;
  constexpr int kTries = 16;  // a text that repeats "answer" endlessly has given none
  for (size_t at = text.rfind("nswer"), tries = 0; at != text.npos && at > 0 && tries < kTries;
       at = text.rfind("nswer", at - 1), ++tries) {
    if (text[at - 1] != 'a' && text[at - 1] != 'A') continue;
    auto rest = text.substr(at - 1);
    if (rest.substr(0, kNear).find_first_of("$\\") == rest.npos) continue;
    if (auto formula = FormulaFinder(rest).next()) return formula;
  }
  return std::nullopt;
}

std::optional<std::string> last_number(std::string_view text) {
  std::optional<std::string> found;
  for (size_t at = text.find_first_of("0123456789"); at != text.npos; at = text.find_first_of("0123456789", at)) {
    size_t begin = at > 0 && (text[at - 1] == '-' || text[at - 1] == '+') ? at - 1 : at;
    at = fraction_end(text, number_end(text, at));
    if (at < text.size() && text[at] == '%') ++at;
    found = text.substr(begin, at - begin);
  }
  return found;
}

bool holds_words(std::string_view text) {
  bool command = false, letter = false;
  for (char c : text) {
    bool is_letter = std::isalpha(static_cast<unsigned char>(c));
    if (is_letter && letter && !command) return true;
    if (!is_letter) command = c == '\\';
    letter = is_letter;
  }
  return false;
}

std::string answer_trimmed(std::string_view text) {
  auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && (is_space(text.back()) || text.back() == '.')) text.remove_suffix(1);
  return std::string(text);
}

bool is_digit_at(std::string_view text, size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; }

size_t number_end(std::string_view text, size_t at) {
  size_t end = digits_end(text, at);
  if (end - at <= 3)
    while (end < text.size() && text[end] == ',' && digits_end(text, end + 1) == end + 4) end += 4;
  return end < text.size() && text[end] == '.' && is_digit_at(text, end + 1) ? digits_end(text, end + 1) : end;
}

size_t fraction_end(std::string_view text, size_t end) {
  size_t slash = text.find_first_not_of(' ', end);
  if (slash == text.npos || text[slash] != '/') return end;
  size_t below = text.find_first_not_of(' ', slash + 1);
  return below != text.npos && is_digit_at(text, below) ? digits_end(text, below) : end;
}

}  // namespace hone::train::rl
