#include "hone/data/formats/python_literal.h"

#include <charconv>
#include <optional>

#include "hone/base/strings/utf8.h"

namespace hone::data {
namespace {

constexpr int kMaxLiteralDepth = 64;

class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : text_(text) {}

  Result<Json> parse() {
    auto value = parse_value(1);
    if (!value) return Error{fmt::format("{} at character {}", problem_, at_ + 1)};
    if (skip_space(); at_ != text_.size()) return error("unexpected text at character {}", at_ + 1);
    return std::move(*value);
  }

 private:
  std::optional<Json> fail(const char* problem) {
    if (!problem_) problem_ = problem;
    return std::nullopt;
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::optional<Json> parse_value(int depth) {
    if (depth > kMaxLiteralDepth) return fail("nested too deep");
    skip_space();
    if (at_ >= text_.size()) return fail("unexpected end");
    if (take('[')) return parse_items(']', depth);
    if (take('(')) return parse_items(')', depth);
    if (take('{')) return parse_dict(depth);
    if (text_[at_] == '\'' || text_[at_] == '"') return parse_strings();
    if (take_word("None") || take_word("null")) return Json(nullptr);
    if (take_word("True") || take_word("true")) return Json(true);
    if (take_word("False") || take_word("false")) return Json(false);
    return parse_number();
  }

  std::optional<Json> parse_items(char closing, int depth) {
    Json items = Json::array();
    while (!take(closing)) {
      auto item = parse_value(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
      if (!take(',') && !(skip_space(), at_ < text_.size() && text_[at_] == closing))
        return fail("expected a comma or a closing bracket");
    }
    return items;
  }

  std::optional<Json> parse_dict(int depth) {
    Json fields = Json::object();
    while (!take('}')) {
      skip_space();
      auto key =
          at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"') ? parse_strings() : fail("expected a quoted key");
      if (!key) return std::nullopt;
      if (!take(':')) return fail("expected a colon");
      auto value = parse_value(depth + 1);
      if (!value) return std::nullopt;
      fields[key->get<std::string>()] = std::move(*value);
      if (!take(',') && !(skip_space(), at_ < text_.size() && text_[at_] == '}'))
        return fail("expected a comma or a closing brace");
    }
    return fields;
  }

  // Adjacent string literals are concatenated, as in Python.
  std::optional<Json> parse_strings() {
    std::string joined;
    do {
      auto part = parse_string();
      if (!part) return std::nullopt;
      joined += *part;
      skip_space();
    } while (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"'));
    return Json(std::move(joined));
  }

  std::optional<std::string> parse_string() {
    char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size()) {
      char c = text_[at_++];
      if (c == quote) return out;
      if (c != '\\')
        out += c;
      else if (!parse_escape(out))
        break;
    }
    fail("a string never ends");
    return std::nullopt;
  }

  bool parse_escape(std::string& out) {
    if (at_ >= text_.size()) return false;
    char c = text_[at_++];
    switch (c) {
      case 'n':
        out += '\n';
        return true;
      case 't':
        out += '\t';
        return true;
      case 'r':
        out += '\r';
        return true;
      case 'b':
        out += '\b';
        return true;
      case 'f':
        out += '\f';
        return true;
      case 'a':
        out += '\a';
        return true;
      case 'v':
        out += '\v';
        return true;
      case '0':
        out += '\0';
        return true;
      case '\n':
        return true;
      case '\\':
      case '\'':
      case '"':
        out += c;
        return true;
      case 'x':
        return parse_code(out, 2);
      case 'u':
        return parse_code(out, 4);
      case 'U':
        return parse_code(out, 8);
      default:
        out += '\\', out += c;
        return true;
    }
  }

  bool parse_code(std::string& out, size_t digits) {
    if (at_ + digits > text_.size()) return false;
    uint32_t code = 0;
    auto first = text_.data() + at_;
    auto [end, status] = std::from_chars(first, first + digits, code, 16);
    if (status != std::errc() || end != first + digits || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    at_ += digits;
    append_utf8(out, code);
    return true;
  }

  std::optional<Json> parse_number() {
    const char *first = text_.data() + at_, *last = text_.data() + text_.size();
    int64_t integer;
    double real;
    auto [integer_end, integer_status] = std::from_chars(first, last, integer);
    auto [real_end, real_status] = std::from_chars(first, last, real);
    if (real_status != std::errc()) return fail("expected a value");
    at_ += static_cast<size_t>(real_end - first);
    return integer_status == std::errc() && integer_end == real_end ? Json(integer) : Json(real);
  }

  std::string_view text_;
  size_t at_ = 0;
  const char* problem_ = nullptr;
};

}  // namespace

Result<Json> parse_python_literal(std::string_view text) { return LiteralParser(text).parse(); }

Result<Json> parse_value_text(std::string_view text) {
  if (auto json = parse_json(text)) return json;
  return parse_python_literal(text);
}

}  // namespace hone::data
