#include "hone/engine/constraints/regex_parser.h"

#include <map>
#include <optional>

#include "hone/base/strings/hex.h"
#include "hone/base/strings/utf8.h"

namespace hone::engine {
namespace {

using Ranges = std::vector<CodePointRange>;
constexpr int kMaxRepeat = 1'000'000, kMaxDepth = 100;

// Thrown inside the parser only; parse_regex turns it into an Error.
struct UnsupportedRegex {
  std::string message;
};

const Ranges kDigits{{'0', '9'}}, kWords{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, kSpaces{{'\t', '\r'}, {' ', ' '}};
// Python's \s has four more characters than JavaScript's; \S must exclude both sets.
const Ranges kAllSpaces{{'\t', '\r'}, {0x1C, ' '}};

// Beyond ASCII, Python's classes differ from ours, so complements are restricted to ASCII.
Ranges ascii_complement(const Ranges& ranges) {
  auto all = complement(normalized(ranges));
  Ranges ascii;
  for (auto [first, last] : all)
    if (first < 0x80) ascii.push_back({first, std::min<uint32_t>(last, 0x7F)});
  return ascii;
}

class Parser {
 public:
  Parser(std::string_view text, bool anywhere) : text_(text), anywhere_(anywhere) {}

  Pattern whole() {
    if (text_.size() > kLongestExpression)
      throw UnsupportedRegex{fmt::format("{} bytes; at most {} are read", text_.size(), kLongestExpression)};
    auto pattern = choice(0, true);
    if (!at_end()) refuse("an unmatched )");
    return pattern;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw UnsupportedRegex{fmt::format("{} at byte {}", what, at_)}; }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool sequence_ends() const { return at_end() || peek() == '|' || peek() == ')'; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // `leading`: nothing precedes it, so ^ matches there.
  Pattern choice(int depth, bool leading) {
    if (depth > kMaxDepth) refuse("groups nested too deeply");
    std::vector<Pattern> parts{sequence(depth, leading)};
    while (take("|")) parts.push_back(sequence(depth, leading));
    return pattern_choice(std::move(parts));
  }

  Pattern sequence(int depth, bool leading) {
    std::vector<Pattern> parts;
    bool begins = false, ends = false;  // by an anchor
    while (!sequence_ends()) {
      if (ends) refuse("an anchor inside the expression");
      if (take("^") || take("\\A")) {
        if (!leading || !parts.empty()) refuse("an anchor inside the expression");
        begins = true;
      } else if (take("$") || take("\\Z")) {
        ends = true;
      } else {
        parts.push_back(quantified(atom_with_anchors(depth, leading && parts.empty())));
      }
    }
    begin_anchors_ += begins;
    end_anchors_ += ends;
    if (anywhere_ && depth > 0 && (begins || ends)) refuse("an anchor inside a group");
    if (anywhere_ && depth == 0 && !begins) parts.insert(parts.begin(), any_text());
    if (anywhere_ && depth == 0 && !ends) parts.push_back(any_text());
    return pattern_sequence(std::move(parts));
  }

  // The next atom; nothing may follow a group closed by an anchor, and a group with an anchor cannot be repeated.
  Pattern atom_with_anchors(int depth, bool leading) {
    auto begun = begin_anchors_, ended = end_anchors_;
    auto part = atom(depth, leading);
    if ((end_anchors_ > ended && !sequence_ends()) || (begin_anchors_ > begun && quantifier()))
      refuse("an anchor inside the expression");
    return part;
  }

  Pattern any_text() { return pattern_repeat(characters({{0, kLastCodePoint}}), 0); }

  // Each set is stored once.
  Pattern characters(const Ranges& ranges) {
    auto& known = sets_[ranges];
    if (!known) known = pattern_characters(ranges);
    return known;
  }

  Pattern atom(int depth, bool leading) {
    if (take("(")) return group(depth, leading);
    if (take("[")) return characters(bracket());
    if (take(".")) return characters(complement({{'\n', '\n'}}));
    if (quantifier()) refuse("nothing to repeat");
    if (peek() == '\\') return characters(escape(false).first);
    auto value = code_point();
    return characters({{value, value}});
  }

  Pattern group(int depth, bool leading) {
    if (take("?:")) {
    } else if (take("?P<") || (text_.substr(at_).starts_with("?<") && !text_.substr(at_).starts_with("?<=") &&
                               !text_.substr(at_).starts_with("?<!") && take("?<"))) {
      auto end = text_.find('>', at_);
      if (end == std::string_view::npos) refuse("an unfinished group name");
      at_ = end + 1;
    } else if (peek() == '?') {
      refuse("look-around, a flag or a condition, which are not supported: (?");
    }
    auto inner = choice(depth + 1, leading);
    if (!take(")")) refuse("an unclosed group");
    return inner;
  }

  Pattern quantified(Pattern pattern) {
    auto bounds = quantifier();
    if (!bounds) return pattern;
    take("?");  // lazy and greedy match the same set of texts
    if (quantifier()) refuse("a multiple repeat");
    return pattern_repeat(std::move(pattern), bounds->first, bounds->second);
  }

  std::optional<std::pair<int, int>> quantifier() {
    if (take("*")) return std::pair(0, -1);
    if (take("+")) return std::pair(1, -1);
    if (take("?")) return std::pair(0, 1);
    return braces();
  }

  // {m}, {m,}, {,n}, {m,n}, {,}; anything else in braces is text, as in Python.
  std::optional<std::pair<int, int>> braces() {
    if (peek() != '{') return std::nullopt;
    size_t before = at_++;
    auto low = number();
    bool comma = take(",");
    auto high = comma ? number() : low;
    if (!take("}") || (!low && !comma)) {
      at_ = before;
      return std::nullopt;
    }
    int min = low.value_or(0), max = high.value_or(-1);
    if (max >= 0 && max < min) refuse("a repetition whose maximum is below its minimum");
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
      auto [low, is_class] = one_of_bracket(negated);
      has_class |= is_class;
      if (!is_class && peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        auto [high, high_is_class] = one_of_bracket(negated);
        if (high_is_class || high[0].first < low[0].first) refuse("a range whose end is before its start");
        low = {{low[0].first, high[0].first}};
      }
      ranges.insert(ranges.end(), low.begin(), low.end());
    }
    ++at_;
    if (!negated) return ranges;
    return has_class ? ascii_complement(ranges) : complement(normalized(ranges));
  }

  std::pair<Ranges, bool> one_of_bracket(bool negated) {
    if (at_end()) refuse("an unclosed [");
    if (peek() == '\\') return escape(negated);
    auto value = code_point();
    return {{{value, value}}, false};
  }

  // The characters after a backslash, and whether they form a class such as \d. For a class that is excluded, the union of all
  // dialects' readings.
  std::pair<Ranges, bool> escape(bool left_out) {
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
        return {left_out ? kAllSpaces : kSpaces, true};
      case 'D':
        return {ascii_complement(kDigits), true};
      case 'W':
        return {ascii_complement(kWords), true};
      case 'S':
        return {ascii_complement(left_out ? kSpaces : kAllSpaces), true};
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
        return one(octal());
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
      refuse(fmt::format("\\{}, which is not supported,", c));
    --at_;
    return one(code_point());
  }

  // Up to two digits after \0.
  uint32_t octal() {
    uint32_t value = 0;
    for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) value = value * 8 + static_cast<uint32_t>(text_[at_++] - '0');
    return value;
  }

  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = hex_value(peek());
      if (digit < 0) refuse("a missing hexadecimal digit");
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
    for (size_t i = 1; i < length; ++i) {
      auto more = static_cast<unsigned char>(text_[at_ + i]);
      if (!is_continuation_byte(more)) refuse("text that is not UTF-8");
      value = value << 6 | (more & 0x3Fu);
    }
    at_ += length;
    return value;
  }

  std::string_view text_;
  bool anywhere_;
  std::map<Ranges, Pattern> sets_;
  size_t at_ = 0, begin_anchors_ = 0, end_anchors_ = 0;
};

Result<Pattern> parsed(std::string_view expression, bool anywhere) try {
  return Parser(expression, anywhere).whole();
} catch (const UnsupportedRegex& refusal) {
  return error("the regular expression has {}", refusal.message);
}

}  // namespace

Result<Pattern> parse_regex(std::string_view expression) { return parsed(expression, false); }
Result<Pattern> parse_regex_anywhere(std::string_view expression) { return parsed(expression, true); }

}  // namespace hone::engine
