#include "hone/engine/constraints/regex_parser.h"

#include <optional>

namespace hone::engine {
namespace {

using Ranges = std::vector<CodePointRange>;
constexpr int kMaxRepeat = 10'000, kMaxDepth = 100;

// Thrown inside the parser only; parse_regex turns it into an Error.
struct RegexRefusal {
  std::string message;
};

const Ranges kDigits{{'0', '9'}}, kWords{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, kSpaces{{'\t', '\r'}, {' ', ' '}};

// Outside of ASCII the classes of Python differ from ours, so that a complement stays inside.
Ranges ascii_complement(const Ranges& ranges) {
  auto all = complement(normalised(ranges));
  Ranges ascii;
  for (auto [first, last] : all)
    if (first < 0x80) ascii.push_back({first, std::min<uint32_t>(last, 0x7F)});
  return ascii;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Pattern whole() {
    auto pattern = choice(0);
    if (!at_end()) refuse("an unmatched )");
    return pattern;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw RegexRefusal{fmt::format("{} at byte {}", what, at_)}; }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Pattern choice(int depth) {
    if (depth > kMaxDepth) refuse("groups nested too deeply");
    std::vector<Pattern> parts{sequence(depth)};
    while (take("|")) parts.push_back(sequence(depth));
    return pattern_choice(std::move(parts));
  }

  Pattern sequence(int depth) {
    std::vector<Pattern> parts;
    while (!at_end() && peek() != '|' && peek() != ')') {
      if (take("^") || take("\\A")) {
        if (!parts.empty()) refuse("an anchor inside the expression");
      } else if (take("$") || take("\\Z")) {
        if (!at_end() && peek() != '|' && peek() != ')') refuse("an anchor inside the expression");
      } else {
        parts.push_back(quantified(atom(depth)));
      }
    }
    return pattern_sequence(std::move(parts));
  }

  Pattern atom(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) return pattern_characters(bracket());
    if (take(".")) return pattern_characters(complement({{'\n', '\n'}}));
    if (peek() == '*' || peek() == '+' || peek() == '?') refuse("nothing to repeat");
    if (peek() == '\\') return pattern_characters(escape().first);
    auto value = code_point();
    return pattern_characters({{value, value}});
  }

  Pattern group(int depth) {
    if (take("?:")) {
    } else if (take("?P<") || (text_.substr(at_).starts_with("?<") && !text_.substr(at_).starts_with("?<=") &&
                               !text_.substr(at_).starts_with("?<!") && take("?<"))) {
      auto end = text_.find('>', at_);
      if (end == std::string_view::npos) refuse("an unfinished group name");
      at_ = end + 1;
    } else if (peek() == '?') {
      refuse("look-around, flags and conditions are not supported: (?");
    }
    auto inner = choice(depth + 1);
    if (!take(")")) refuse("an unclosed group");
    return inner;
  }

  Pattern quantified(Pattern pattern) {
    for (;;) {
      if (take("*")) {
        pattern = pattern_repeat(pattern, 0);
      } else if (take("+")) {
        pattern = pattern_repeat(pattern, 1);
      } else if (take("?")) {
        pattern = pattern_optional(pattern);
      } else if (auto bounds = braces()) {
        pattern = pattern_repeat(pattern, bounds->first, bounds->second);
      } else {
        return pattern;
      }
      take("?");  // lazy or greedy is the same set of texts
    }
  }

  // {m}, {m,}, {,n}, {m,n}; anything else in braces is text, as in Python.
  std::optional<std::pair<int, int>> braces() {
    if (peek() != '{') return std::nullopt;
    size_t before = at_++;
    auto low = number();
    std::optional<int> high = low;
    bool comma = take(",");
    if (comma) high = number();
    if (!take("}") || (!low && !high && !comma)) {
      at_ = before;
      return std::nullopt;
    }
    if (!low && !high) {
      at_ = before;
      return std::nullopt;
    }
    int min = low.value_or(0), max = high.value_or(-1);
    if (max >= 0 && max < min) refuse("a repetition whose end lies before its beginning");
    return std::pair(min, max);
  }

  std::optional<int> number() {
    int value = 0;
    size_t before = at_;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > kMaxRepeat) refuse(fmt::format("more than {} repetitions", kMaxRepeat));
    }
    return at_ == before ? std::nullopt : std::optional(value);
  }

  Ranges bracket() {
    bool negated = take("^"), has_class = false;
    Ranges ranges;
    for (bool first = true; first || peek() != ']'; first = false) {
      if (at_end()) refuse("an unclosed [");
      auto [low, is_class] = one_of_bracket();
      has_class |= is_class;
      if (!is_class && peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        auto [high, high_is_class] = one_of_bracket();
        if (high_is_class || high[0].first < low[0].first) refuse("a range whose end lies before its beginning");
        low = {{low[0].first, high[0].first}};
      }
      ranges.insert(ranges.end(), low.begin(), low.end());
    }
    ++at_;
    if (!negated) return ranges;
    return has_class ? ascii_complement(ranges) : complement(normalised(ranges));
  }

  std::pair<Ranges, bool> one_of_bracket() {
    if (peek() == '\\') return escape();
    auto value = code_point();
    return {{{value, value}}, false};
  }

  // The characters behind a backslash, and whether they are a class such as \d.
  std::pair<Ranges, bool> escape() {
    ++at_;
    if (at_end()) refuse("a backslash at the end");
    char c = text_[at_++];
    auto one = [](uint32_t value) { return std::pair(Ranges{{value, value}}, false); };
    switch (c) {
      case 'd':
        return {kDigits, true};
      case 'w':
        return {kWords, true};
      case 's':
        return {kSpaces, true};
      case 'D':
        return {ascii_complement(kDigits), true};
      case 'W':
        return {ascii_complement(kWords), true};
      case 'S':
        return {ascii_complement(kSpaces), true};
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'a':
        return one('\a');
      case '0':
        return one(0);
      case 'x':
        return one(hexadecimal(2));
      case 'u':
        return one(hexadecimal(4));
      case 'U':
        return one(hexadecimal(8));
      default:
        break;
    }
    if ((c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      refuse(fmt::format("\\{} is not supported", c));
    --at_;
    return one(code_point());
  }

  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      char c = peek();
      int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) refuse("a hexadecimal digit is missing");
      value = value << 4 | static_cast<uint32_t>(digit);
      ++at_;
    }
    return value;
  }

  uint32_t code_point() {
    auto byte = static_cast<unsigned char>(text_[at_]);
    size_t length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 0;
    if (length == 0 || at_ + length > text_.size()) refuse("text that is not UTF-8");
    uint32_t value = length == 1 ? byte : byte & (0x7Fu >> length);
    for (size_t i = 1; i < length; ++i) value = value << 6 | (static_cast<unsigned char>(text_[at_ + i]) & 0x3F);
    at_ += length;
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Pattern> parse_regex(std::string_view expression) try {
  return Parser(expression).whole();
} catch (const RegexRefusal& refusal) {
  return error("the regular expression has {}", refusal.message);
}

}  // namespace hone::engine
