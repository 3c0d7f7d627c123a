// Strings as JSON writes them: with what must be escaped, escaped.
#include <algorithm>

#include "hone/engine/constraints/json_parts.h"
#include "hone/engine/constraints/regex_parser.h"

namespace hone::engine {
namespace {

constexpr int kLongestCounted = 10'000;  // a bound beyond it makes an automaton too large

Pattern quoted(Pattern inside) { return pattern_sequence({pattern_text("\""), std::move(inside), pattern_text("\"")}); }

bool is_plain(uint32_t character) { return character > 0x1F && character != '"' && character != '\\'; }

std::string escape_of(uint32_t character) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  auto place = kShort.find(static_cast<char>(character));
  return place != kShort.npos ? fmt::format("\\{}", kLetters[place]) : fmt::format("\\u{:04x}", character);
}

// Characters of a string's content as they stand between quotes.
Pattern written(const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> plain;
  std::vector<Pattern> parts;
  for (auto [first, last] : ranges) {
    for (uint32_t c = first; c <= std::min<uint32_t>(last, '\\'); ++c)
      if (is_plain(c))
        plain.push_back({c, c});
      else
        parts.push_back(pattern_text(escape_of(c)));
    if (last > '\\') plain.push_back({std::max<uint32_t>(first, '\\' + 1), last});
  }
  parts.push_back(pattern_characters(std::move(plain)));
  return pattern_choice(std::move(parts));
}

Pattern escaped(const Pattern& pattern) {
  using Kind = PatternNode::Kind;
  if (pattern->kind == Kind::nothing) return pattern;
  if (pattern->kind == Kind::characters) return written(pattern->ranges);
  std::vector<Pattern> parts;
  for (const auto& part : pattern->parts) parts.push_back(escaped(part));
  if (pattern->kind == Kind::repeat) return pattern_repeat(parts[0], pattern->min, pattern->max);
  return pattern->kind == Kind::choice ? pattern_choice(std::move(parts)) : pattern_sequence(std::move(parts));
}

Pattern character() {
  static const Pattern pattern =
      pattern_choice({pattern_characters(complement(normalised({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}))),
                      pattern_of(R"(\\(["\\/bfnrt]|u[0-9a-cA-CefEF][0-9a-fA-F]{3}))")});
  return pattern;
}

const char* format_expression(const std::string& format) {
  if (format == "date") return "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])";
  if (format == "time") return "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z";
  if (format == "date-time")
    return "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z";
  if (format == "uuid") return "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
  if (format == "email") return "[a-z0-9._-]{1,32}@[a-z0-9-]{1,32}\\.[a-z]{2,8}";
  if (format == "ipv4") return "((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return nullptr;
}

// Both a pattern and lengths hold only where the pattern's own texts have such lengths.
Pattern checked(const Pattern& content, int least, int most) {
  auto lengths = lengths_of(content);
  if (lengths.min < least || (most >= 0 && (lengths.max < 0 || lengths.max > most)))
    throw SchemaRefusal{"minLength or maxLength beside a pattern that allows other lengths; write the lengths into the pattern"};
  return quoted(escaped(content));
}

}  // namespace

Pattern pattern_of(std::string_view expression) {
  return std::move(parse_regex(expression)).or_throw(ExitCode::failure, "a pattern of our own");
}

int size_bound(const Json& schema, const char* name, int otherwise) {
  auto found = schema.find(name);
  if (found == schema.end()) return otherwise;
  double size = found->get<double>();
  if (!(size >= 0)) throw SchemaRefusal{fmt::format("\"{}\" is {}; expected a whole number from 0", name, found->dump())};
  if (size > kLongestCounted) {
    if (std::string_view(name).starts_with("max")) return otherwise;  // nothing comes near it
    throw SchemaRefusal{fmt::format("\"{}\" is {}; at most {} can be followed", name, found->dump(), kLongestCounted)};
  }
  return static_cast<int>(size);
}

Pattern json_any_string() { return quoted(pattern_repeat(character(), 0)); }

Pattern json_string(const Json& schema) {
  int least = size_bound(schema, "minLength", 0), most = size_bound(schema, "maxLength", -1);
  if (most >= 0 && least > most) return pattern_nothing();
  if (auto pattern = schema.find("pattern"); pattern != schema.end()) {
    auto inside = parse_regex(pattern->get<std::string>());
    if (!inside) throw SchemaRefusal{inside.error()};
    return checked(*inside, least, most);
  }
  if (auto format = schema.find("format"); format != schema.end())
    if (const char* expression = format_expression(format->get<std::string>()))
      return checked(pattern_of(expression), least, most);
  return quoted(pattern_repeat(character(), least, most));
}

}  // namespace hone::engine
