#include <algorithm>
#include <limits>

#include "hone/base/strings/utf8.h"
#include "hone/text/jinja/attributes.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/python_format.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

using StringFunction = std::string (*)(std::string_view);

template <StringFunction transform>
Value map_string(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound("str", arguments, {});
  return interpreter.string(transform(self.text()));
}

template <Side side>
Value strip(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("strip", arguments, {"chars"});
  std::string_view text = self.text();
  std::string_view stripped = bound.given(0) ? strip_characters(text, bound.text(0), side) : strip_space(text, side);
  return stripped.size() == text.size() ? self : interpreter.string(std::string(stripped));
}

template <bool from_right>
Value split(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("split", arguments, {"sep", "maxsplit"});
  int64_t most = bound.integer(1, -1);
  if (!bound.given(0)) return interpreter.list(split_space(interpreter, self.text(), most, from_right));
  if (bound.text(0).empty()) throw TemplateFailure("empty separator");
  return interpreter.list(split_on(interpreter, self.text(), bound.text(0), most, from_right));
}

Value splitlines(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("splitlines", arguments, {"keepends"});
  std::vector<Value> lines;
  for (std::string_view line : split_lines(self.text(), bound.flag(0))) lines.push_back(interpreter.string(std::string(line)));
  return interpreter.list(std::move(lines));
}

// The part of the text selected by optional start and end arguments, as byte offsets. Empty optional: nothing can match there.
struct TextRange {
  size_t begin, end;
  int64_t first;
};
std::optional<TextRange> chosen_part(const StringObject& self, const Bound& bound, size_t start_at) {
  int64_t length = self.length();
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length); };
  int64_t raw_start = bound.given(start_at) ? require_integer(bound[start_at]) : 0;
  int64_t stop = bound.given(start_at + 1) ? clamp(require_integer(bound[start_at + 1])) : length;
  if (raw_start > stop) return std::nullopt;
  int64_t start = clamp(raw_start);
  if (start > stop) return std::nullopt;
  if (start == 0 && stop == length) return TextRange{0, self.text.size(), 0};
  return TextRange{byte_offset(self.text, start), byte_offset(self.text, stop), start};
}

template <bool at_start>
Value has_affix(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound bound(at_start ? "startswith" : "endswith", arguments, {"affix", "start", "end"}, 1);
  std::optional<TextRange> part = chosen_part(self.as_string(), bound, 1);
  std::vector<Value> candidates = {bound[0]};
  if (bound[0].is(Kind::list) && bound[0].as_list().flavor == Sequence::tuple) candidates = bound[0].as_list().items;
  bool found = false;
  for (const Value& candidate : candidates) {
    const std::string& affix = require_text(candidate, at_start ? "startswith" : "endswith");
    if (!part) continue;
    std::string_view text = std::string_view(self.text()).substr(part->begin, part->end - part->begin);
    found = found || (at_start ? text.starts_with(affix) : text.ends_with(affix));
  }
  return Value::boolean(found);
}

int64_t find_index(const Value& self, const Bound& bound, bool from_right) {
  std::optional<TextRange> part = chosen_part(self.as_string(), bound, 1);
  const std::string& needle = bound.text(0);
  if (!part) return -1;
  charge_comparison(1 + self.text().size() / 64);
  std::string_view text = std::string_view(self.text()).substr(part->begin, part->end - part->begin);
  size_t at = from_right ? text.rfind(needle) : text.find(needle);
  return at == std::string_view::npos ? -1 : part->first + count_code_points(text.substr(0, at));
}

template <bool from_right, bool must_exist>
Value find(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  int64_t at = find_index(self, bound, from_right);
  if (must_exist && at < 0) throw TemplateFailure("substring not found");
  return Value::integer(at);
}

Value count(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  std::optional<TextRange> part = chosen_part(self.as_string(), bound, 1);
  const std::string& needle = bound.text(0);
  if (!part) return Value::integer(0);
  interpreter.charge_bytes(self.text().size());
  std::string_view text = std::string_view(self.text()).substr(part->begin, part->end - part->begin);
  if (needle.empty()) return Value::integer(count_code_points(text) + 1);
  int64_t total = 0;
  for (size_t at = text.find(needle); at != std::string_view::npos; at = text.find(needle, at + needle.size())) ++total;
  return Value::integer(total);
}

Value replace(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  return interpreter.string(replace_text(interpreter, self.text(), bound.text(0), bound.text(1), bound.integer(2, -1)));
}

Value join(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("join", arguments, {"iterable"}, 1);
  std::string out;
  bool first = true;
  Iteration iteration(interpreter, bound[0]);
  for (Value item; iteration.next(item);) {
    if (!item.is(Kind::string)) throw TemplateFailure("sequence item: expected str instance, " + type_name(item) + " found");
    if (!first) out += self.text();
    first = false;
    out += item.text();
    interpreter.check_size(out.size());
  }
  return interpreter.string(std::move(out));
}

Value format(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return interpreter.string(brace_format(interpreter, self.text(), arguments));
}

Value format_map(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("format_map", arguments, {"mapping"}, 1);
  if (!bound[0].is(Kind::dict)) throw TemplateFailure("format_map() needs a mapping");
  Arguments named;
  for (const auto& [key, value] : bound[0].as_dict().items)
    if (key.is(Kind::string)) named.named.emplace_back(key.text(), value);
  return interpreter.string(brace_format(interpreter, self.text(), named));
}

template <bool from_right>
Value partition(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("partition", arguments, {"sep"}, 1);
  const std::string& text = self.text();
  const std::string& separator = bound.text(0);
  if (separator.empty()) throw TemplateFailure("empty separator");
  size_t at = from_right ? text.rfind(separator) : text.find(separator);
  std::vector<Value> parts;
  if (at == std::string::npos) {
    parts = {self, Value::string(""), Value::string("")};
    if (from_right) std::swap(parts[0], parts[2]);
  } else {
    parts = {interpreter.string(text.substr(0, at)), bound[0], interpreter.string(text.substr(at + separator.size()))};
  }
  return interpreter.list(std::move(parts), Sequence::tuple);
}

template <bool prefix>
Value remove_affix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("removeprefix", arguments, {"affix"}, 1);
  const std::string& text = self.text();
  const std::string& affix = bound.text(0);
  if (affix.empty() || !(prefix ? text.starts_with(affix) : text.ends_with(affix))) return self;
  return interpreter.string(prefix ? text.substr(affix.size()) : text.substr(0, text.size() - affix.size()));
}

enum class Alignment { left, right, center };
template <Alignment alignment>
Value pad(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("pad", arguments, {"width", "fillchar"}, 1);
  std::string fill = bound.has(1) ? bound.text(1) : " ";
  if (count_code_points(fill) != 1) throw TemplateFailure("The fill character must be exactly one character long");
  int64_t width = require_integer(bound[0]);
  int64_t missing = width - self.as_string().length();
  if (missing <= 0) return self;
  int64_t left = alignment == Alignment::right ? missing : alignment == Alignment::left ? 0 : missing / 2 + (missing & width & 1);
  return interpreter.string(repeat_text(interpreter, fill, left) + self.text() + repeat_text(interpreter, fill, missing - left));
}

Value zfill(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("zfill", arguments, {"width"}, 1);
  const std::string& text = self.text();
  int64_t missing = require_integer(bound[0]) - self.as_string().length();
  if (missing <= 0) return self;
  size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return interpreter.string(text.substr(0, sign) + repeat_text(interpreter, "0", missing) + text.substr(sign));
}

Value expandtabs(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("expandtabs", arguments, {"tabsize"});
  int64_t size = bound.integer(0, 8);
  std::string out;
  int64_t column = 0;
  for (char c : self.text()) {
    if (c == '\t') {
      int64_t spaces = size > 0 ? size - column % size : 0;
      out += repeat_text(interpreter, " ", spaces);
      column += spaces;
    } else {
      out += c;
      column = c == '\n' || c == '\r' ? 0 : column + (is_continuation_byte(c) ? 0 : 1);
    }
    interpreter.check_size(out.size());
  }
  return interpreter.string(std::move(out));
}

// Defined in Python, but useless for plain text: rejected when called.
Value refuse_bytes(Interpreter&, const Value&, const Arguments&) {
  throw TemplateFailure("encode, translate and maketrans are not supported in chat templates");
}

constexpr MethodEntry kStringMethods[] = {
    {"strip", strip<Side::both>},
    {"lstrip", strip<Side::left>},
    {"rstrip", strip<Side::right>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"startswith", has_affix<true>},
    {"endswith", has_affix<false>},
    {"replace", replace},
    {"join", join},
    {"upper", map_string<to_upper>},
    {"lower", map_string<to_lower>},
    {"title", map_string<title_case>},
    {"capitalize", map_string<capitalize>},
    {"swapcase", map_string<swap_case>},
    {"casefold", map_string<to_lower>},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"format", format},
    {"format_map", format_map},
    {"splitlines", splitlines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"ljust", pad<Alignment::left>},
    {"rjust", pad<Alignment::right>},
    {"center", pad<Alignment::center>},
    {"zfill", zfill},
    {"expandtabs", expandtabs},
    {"encode", refuse_bytes},
    {"translate", refuse_bytes},
    {"maketrans", refuse_bytes},
};

}  // namespace

Method find_string_method(std::string_view name) {
  for (const MethodEntry& entry : kStringMethods)
    if (entry.name == name) return entry.method;
  return find_string_predicate(name);
}

}  // namespace hone::text::jinja
