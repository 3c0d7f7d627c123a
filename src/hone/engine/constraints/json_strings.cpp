// JSON strings, with escaping.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "hone/engine/constraints/json_rules.h"
#include "hone/engine/constraints/regex_parser.h"

namespace hone::engine {
namespace {

constexpr double kLargestMinimum = 1e6;  // more would take too long

Pattern quoted(Pattern inside) { return pattern_sequence({pattern_text("\""), std::move(inside), pattern_text("\"")}); }

bool is_plain(uint32_t character) { return character > 0x1F && character != '"' && character != '\\'; }

std::string escape_of(uint32_t character) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  auto index = kShort.find(static_cast<char>(character));
  return index != kShort.npos ? fmt::format("\\{}", kLetters[index]) : fmt::format("\\u{:04x}", character);
}

// Each is built once: a dot matches most of them.
const Pattern& escape_pattern(uint32_t character) {
  static const auto all = [] {
    std::array<Pattern, '\\' + 1> made;
    for (uint32_t c = 0; c < made.size(); ++c)
      if (!is_plain(c)) made[c] = pattern_text(escape_of(c));
    return made;
  }();
  return all[character];
}

// A pattern of a string's content as written between quotes; equal character sets share one node.
class Escaping {
 public:
  Pattern escaped(const Pattern& pattern) {
    using Kind = PatternNode::Kind;
    if (pattern->kind == Kind::nothing) return pattern;
    if (pattern->kind == Kind::characters) return characters(pattern->ranges);
    std::vector<Pattern> parts;
    for (const auto& part : pattern->parts) parts.push_back(escaped(part));
    if (pattern->kind == Kind::repeat) return pattern_repeat(parts[0], pattern->min, pattern->max);
    return pattern->kind == Kind::choice ? pattern_choice(std::move(parts)) : pattern_sequence(std::move(parts));
  }

 private:
  Pattern characters(const std::vector<CodePointRange>& ranges) {
    auto& known = known_[ranges];
    if (!known) known = written(ranges);
    return known;
  }

  static Pattern written(const std::vector<CodePointRange>& ranges) {
    std::vector<CodePointRange> plain;
    std::vector<Pattern> parts;
    for (auto [first, last] : ranges) {
      for (uint32_t c = first; c <= std::min<uint32_t>(last, '\\'); ++c)
        if (is_plain(c))
          plain.push_back({c, c});
        else
          parts.push_back(escape_pattern(c));
      if (last > '\\') plain.push_back({std::max<uint32_t>(first, '\\' + 1), last});
    }
    parts.push_back(pattern_characters(std::move(plain)));
    return pattern_choice(std::move(parts));
  }

  std::map<std::vector<CodePointRange>, Pattern> known_;
};

Pattern character() {
  static const Pattern pattern =
      pattern_choice({pattern_characters(complement(normalized({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}))),
                      pattern_of(R"(\\(["\\/bfnrt]|u[0-9a-cA-CefEF][0-9a-fA-F]{3}))")});
  return pattern;
}

// A pattern and length limits are combined only if the pattern's own lengths satisfy the limits.
Pattern checked(const Pattern& content, int least, int most) {
  auto lengths = lengths_of(content);
  if (lengths.min < least || (most >= 0 && (lengths.max < 0 || lengths.max > most)))
    throw UnsupportedSchema{
        "minLength or maxLength together with a pattern or format that allows other lengths; write the lengths into the pattern"};
  return quoted(Escaping().escaped(content));
}

}  // namespace

Pattern pattern_of(std::string_view expression) {
  return std::move(parse_regex(expression)).or_throw(ExitCode::failure, "a pattern of our own");
}

int size_bound(const Json& schema, const char* name, int otherwise) {
  auto found = schema.find(name);
  if (found == schema.end()) return otherwise;
  double size = found->is_number() ? found->get<double>() : -1;
  if (!(size >= 0) || size != std::floor(size))
    throw UnsupportedSchema{fmt::format("\"{}\" is {}; expected an integer from 0", name, found->dump())};
  double largest = std::string_view(name).starts_with("max") ? std::numeric_limits<int>::max() : kLargestMinimum;
  if (size > largest)
    throw UnsupportedSchema{fmt::format("\"{}\" is {}; at most {:.0f} can be followed", name, found->dump(), largest)};
  return static_cast<int>(size);
}

Pattern json_any_string() {
  static const Pattern pattern = quoted(pattern_repeat(character(), 0));
  return pattern;
}

Pattern json_string(const Json& schema) {
  int least = size_bound(schema, "minLength", 0), most = size_bound(schema, "maxLength", -1);
  if (most >= 0 && least > most) return pattern_nothing();
  auto format = schema.find("format");
  auto formatted = format == schema.end() ? std::nullopt : json_format(format->get<std::string>());
  if (auto pattern = schema.find("pattern"); pattern != schema.end()) {
    if (formatted)
      throw UnsupportedSchema{fmt::format("\"pattern\" and \"format\" {} cannot be followed together", format->dump())};
    auto inside = parse_regex(pattern->get<std::string>());
    if (!inside) throw UnsupportedSchema{inside.error()};
    return checked(*inside, least, most);
  }
  if (formatted) return checked(*formatted, least, most);
  return quoted(pattern_repeat(character(), least, most));
}

}  // namespace hone::engine
