// Filters that return text.
#include <fmt/format.h>

#include "hone/text/jinja/attribute_path.h"
#include "hone/text/jinja/builtins/filters.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/python_format.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/json_text.h"
#include "hone/text/jinja/number_text.h"
#include "hone/text/jinja/unicode.h"
#include "hone/text/python_regex.h"

namespace hone::text::jinja {

namespace {

using TextFunction = std::string (*)(std::string_view);

template <TextFunction transform>
Value map_text(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("filter", arguments, {});
  return like_origin(subject, interpreter.string(transform(interpreter.to_text(subject))));
}

Value to_string(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("string", arguments, {});
  return subject.is(Kind::string) ? subject : interpreter.string(interpreter.to_text(subject));
}

// Upper case after the start and after spaces and opening brackets; lower case elsewhere.
std::string title_words(std::string_view text) {
  auto starts_word = [](char32_t c) { return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<'; };
  std::string out, word;
  auto close_word = [&] {
    if (word.empty()) return;
    size_t first = 0;
    next_code_point(word, first);
    out += to_upper(std::string_view(word).substr(0, first)) + to_lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (size_t i = 0; i < text.size();) {
    size_t begin = i;
    char32_t point = next_code_point(text, i);
    if (starts_word(point)) {
      close_word();
      out += text.substr(begin, i - begin);
    } else {
      word += text.substr(begin, i - begin);
    }
  }
  close_word();
  return out;
}

// lm-evaluation-harness's filter: re.sub.
Value regex_replace(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("regex_replace", arguments, {"pattern", "repl", "count"}, 2);
  auto regex = PythonRegex::compile(bound.text(0));
  if (!regex) throw TemplateFailure(regex.error());
  try {
    return interpreter.string(regex->replace(interpreter.to_text(subject), bound.text(1), bound.integer(2, 0)));
  } catch (const UserError& problem) {
    throw TemplateFailure(problem.what());
  }
}

Value trim(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("trim", arguments, {"chars"});
  std::string text = interpreter.to_text(subject);
  std::string_view trimmed = bound.given(0) ? strip_characters(text, bound.text(0), Side::both) : strip_space(text, Side::both);
  if (subject.is(Kind::string) && trimmed.size() == text.size()) return subject;
  return like_origin(subject, interpreter.string(std::string(trimmed)));
}

Value replace_filter(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  int64_t count = bound.given(2) ? require_integer(bound[2]) : -1;
  return interpreter.string(replace_text(interpreter, interpreter.to_text(subject), interpreter.to_text(bound[0]),
                                         interpreter.to_text(bound[1]), count));
}

Value join_filter(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("join", arguments, {"d", "attribute"});
  std::string separator = bound.has(0) ? interpreter.to_text(bound[0]) : "";
  AttributePath path(bound.get(1, Value::none()));
  std::string out;
  bool first = true;
  Iteration iteration(interpreter, subject);
  for (Value item; iteration.next(item);) {
    if (!first) out += separator;
    first = false;
    out += interpreter.to_text(path.follow(interpreter, item));
    interpreter.check_size(out.size());
  }
  return interpreter.string(std::move(out));
}

Value indent(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("indent", arguments, {"width", "first", "blank"});
  std::string margin =
      bound.has(0) && bound[0].is(Kind::string) ? bound[0].text() : repeat_text(interpreter, " ", bound.integer(0, 4));
  if (subject.is(Kind::undefined)) throw TemplateFailure(subject.as_undefined().explain());
  std::string text = require_text(subject, "indent") + "\n";
  bool indent_first = bound.flag(1), indent_blank = bound.flag(2);
  std::string out = indent_first ? margin : "";
  bool first = true;
  for (std::string_view line : split_lines(text, false)) {
    if (!first) {
      out += '\n';
      if (indent_blank || !line.empty()) out += margin;
    }
    first = false;
    out += line;
    interpreter.check_size(out.size());
  }
  return like_origin(subject, interpreter.string(std::move(out)));
}

Value tojson(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0);
  style.sort_keys = bound.flag(3);
  if (bound.given(1)) {
    style.multiline = true;
    style.indent = bound[1].is(Kind::string) ? bound[1].text() : repeat_text(interpreter, " ", require_integer(bound[1]));
    style.item_separator = ",";
  }
  if (bound.given(2)) {
    std::vector<Value> separators = interpreter.to_vector(bound[2]);
    if (separators.size() != 2) throw TemplateFailure("tojson: separators must be a pair");
    style.item_separator = require_text(separators[0], "tojson");
    style.key_separator = require_text(separators[1], "tojson");
  }
  return interpreter.string(to_json(interpreter, subject, style));
}

Value center(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("center", arguments, {"width"});
  std::string text = interpreter.to_text(subject);
  int64_t width = bound.integer(0, 80);
  int64_t missing = width - count_code_points(text);
  if (missing <= 0) return interpreter.string(std::move(text));
  int64_t left = missing / 2 + (missing & width & 1);
  return like_origin(
      subject, interpreter.string(repeat_text(interpreter, " ", left) + text + repeat_text(interpreter, " ", missing - left)));
}

Value truncate(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  int64_t length = bound.integer(0, 255);
  std::string end = bound.has(2) ? bound.text(2) : "...";
  int64_t leeway = bound.given(3) ? require_integer(bound[3]) : 5;
  int64_t end_length = count_code_points(end);
  if (length < end_length) throw TemplateFailure(fmt::format("expected length >= {}, got {}", end_length, length));
  if (leeway < 0) throw TemplateFailure(fmt::format("expected leeway >= 0, got {}", leeway));
  int64_t limit = 0;
  if (__builtin_add_overflow(length, leeway, &limit) || interpreter.length(subject) <= limit) return subject;
  const std::string& text = require_text(subject, "truncate");
  std::string kept = text.substr(0, byte_offset(text, length - end_length));
  if (!bound.flag(1)) kept = kept.substr(0, kept.rfind(' '));
  return interpreter.string(kept + end);
}

Value wordcount(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("wordcount", arguments, {});
  std::string text = interpreter.to_text(subject);
  int64_t count = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    bool word = is_word(next_code_point(text, i));
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(count);
}

Value format_filter(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    throw TemplateFailure("can't handle positional and keyword arguments at the same time");
  }
  Value values = make_list(arguments.positional, Sequence::tuple);
  if (!arguments.named.empty()) {
    std::vector<std::pair<Value, Value>> pairs;
    for (const auto& [name, value] : arguments.named) pairs.emplace_back(Value::string(name), value);
    values = make_dict(std::move(pairs));
  }
  return interpreter.string(percent_format(interpreter, interpreter.to_text(subject), values));
}

Value filesizeformat(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound bound("filesizeformat", arguments, {"binary"});
  bool binary = bound.flag(0);
  std::optional<double> bytes = subject.is(Kind::string) ? parse_real(subject.text()) : std::optional(require_real(subject));
  if (!bytes) throw TemplateFailure("could not convert string to float");
  double base = binary ? 1024 : 1000;
  if (*bytes == 1) return Value::string("1 Byte");
  if (*bytes < base) return Value::string(fmt::format("{} Bytes", truncate_real(*bytes)));
  double unit = base;
  static constexpr std::string_view kPrefixes = "KMGTPEZY";
  for (size_t i = 0;; ++i) {
    unit *= base;
    if (*bytes >= unit && i + 1 < kPrefixes.size()) continue;
    char prefix = i == 0 && !binary ? 'k' : kPrefixes[i];
    return Value::string(fmt::format("{:.1f} {}{}", base * *bytes / unit, prefix, binary ? "iB" : "B"));
  }
}

constexpr FilterEntry kTextFilters[] = {
    {"tojson", tojson},
    {"trim", trim},
    {"regex_replace", regex_replace},
    {"string", to_string},
    {"join", join_filter},
    {"upper", map_text<to_upper>},
    {"lower", map_text<to_lower>},
    {"replace", replace_filter},
    {"indent", indent},
    {"capitalize", map_text<capitalize>},
    {"title", map_text<title_words>},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", wordcount},
    {"format", format_filter},
    {"filesizeformat", filesizeformat},
};

}  // namespace

Filter find_text_filter(std::string_view name) {
  for (const FilterEntry& entry : kTextFilters)
    if (entry.name == name) return entry.filter;
  return nullptr;
}

}  // namespace hone::text::jinja
