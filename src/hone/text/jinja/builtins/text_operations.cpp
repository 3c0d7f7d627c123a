#include "hone/text/jinja/builtins/text_operations.h"

#include <algorithm>
#include <limits>

#include "hone/base/strings/utf8.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

std::vector<Value> split_on(Interpreter& interpreter, std::string_view text, std::string_view separator, int64_t most,
                            bool from_right) {
  std::vector<Value> parts;
  auto push = [&](std::string_view part) { parts.push_back(interpreter.string(std::string(part))); };
  if (!from_right) {
    for (size_t at;
         (most < 0 || static_cast<int64_t>(parts.size()) < most) && (at = text.find(separator)) != std::string_view::npos;) {
      push(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
    push(text);
    return parts;
  }
  for (size_t at;
       (most < 0 || static_cast<int64_t>(parts.size()) < most) && (at = text.rfind(separator)) != std::string_view::npos;) {
    push(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  push(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

namespace {

size_t word_end(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    size_t next = end;
    if (is_space(next_code_point(text, next))) break;
    end = next;
  }
  return end;
}

// Start of the last word in text that does not end in a space.
size_t word_begin(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t start = character_begin(text, begin - 1);
    size_t next = start;
    if (is_space(next_code_point(text, next))) break;
    begin = start;
  }
  return begin;
}

}  // namespace

std::vector<Value> split_space(Interpreter& interpreter, std::string_view text, int64_t most, bool from_right) {
  std::vector<Value> parts;
  Side near = from_right ? Side::right : Side::left;
  text = strip_space(text, near);
  while (!text.empty()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(interpreter.string(std::string(text)));
      break;
    }
    size_t cut = from_right ? word_begin(text) : word_end(text);
    parts.push_back(interpreter.string(std::string(from_right ? text.substr(cut) : text.substr(0, cut))));
    text = strip_space(from_right ? text.substr(0, cut) : text.substr(cut), near);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0, i = 0;
  while (i < text.size()) {
    size_t end = i;
    char32_t c = next_code_point(text, i);
    bool breaks = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(begin, (keep_ends ? i : end) - begin));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace_text(Interpreter& interpreter, std::string_view text, std::string_view old_text, std::string_view new_text,
                         int64_t most) {
  std::string out;
  int64_t done = 0;
  size_t at = 0;
  auto may_replace = [&] { return most < 0 || done < most; };
  if (old_text.empty()) {  // Python inserts the new text between all characters
    while (may_replace()) {
      out += new_text;
      ++done;
      if (at >= text.size()) return out;
      size_t begin = at;
      next_code_point(text, at);
      out += text.substr(begin, at - begin);
      interpreter.check_size(out.size());
    }
    return out.append(text.substr(at));
  }
  for (size_t found; may_replace() && (found = text.find(old_text, at)) != std::string_view::npos; ++done) {
    out += text.substr(at, found - at);
    out += new_text;
    at = found + old_text.size();
    interpreter.check_size(out.size());
  }
  return out.append(text.substr(at));
}

std::string repeat_text(Interpreter& interpreter, std::string_view text, int64_t count) {
  size_t total = 0;
  if (count <= 0 || text.empty()) return "";
  if (__builtin_mul_overflow(text.size(), static_cast<size_t>(count), &total)) total = std::numeric_limits<size_t>::max();
  interpreter.check_size(total);
  interpreter.charge_bytes(total);
  std::string out;
  out.reserve(total);
  for (int64_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value like_origin(const Value& origin, Value result) {
  if (!origin.is_markup()) return result;
  if (result.is(Kind::string) && !result.is_markup()) return Value::markup(result.text());
  if (!result.is(Kind::list)) return result;
  std::vector<Value> items;
  for (const Value& item : result.as_list().items) items.push_back(like_origin(origin, item));
  return make_list(std::move(items), result.as_list().flavor);
}

bool is_upper_text(std::string_view text) {
  bool upper = false;
  for (size_t i = 0; i < text.size();) {
    char32_t point = next_code_point(text, i);
    if (is_lower(point)) return false;
    upper = upper || is_upper(point);
  }
  return upper;
}

bool is_lower_text(std::string_view text) {
  bool lower = false;
  for (size_t i = 0; i < text.size();) {
    char32_t point = next_code_point(text, i);
    if (is_upper(point)) return false;
    lower = lower || is_lower(point);
  }
  return lower;
}

}  // namespace hone::text::jinja
