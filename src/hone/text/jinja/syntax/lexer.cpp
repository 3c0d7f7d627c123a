#include "hone/text/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>

#include "hone/text/jinja/syntax/number_literal.h"
#include "hone/text/jinja/syntax/string_literal.h"
#include "hone/text/jinja/unicode.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

namespace {

// "\r\n" and "\r" become "\n"; one newline at the very end is dropped unless keep_trailing_newline is set.
std::string normalize_newlines(std::string_view source, bool keep_trailing_newline) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!keep_trailing_newline && !out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const TemplateSyntax& syntax)
      : syntax_(syntax), source_(normalize_newlines(source, syntax.keep_trailing_newline)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_text();
    tokens_.push_back({TokenType::end, "", line_});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw TemplateFailure(message, line_); }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts_with(std::string_view prefix) const { return rest().substr(0, prefix.size()) == prefix; }

  void advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + count, '\n'));
    at_ += count;
  }

  size_t space_length(size_t from) const {
    size_t i = from;
    while (i < source_.size()) {
      size_t next = i;
      if (!is_space(next_code_point(source_, next))) break;
      i = next;
    }
    return i - from;
  }

  void emit(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  // Text up to the next tag, stripped at its right end as the tag's sign or lstrip_blocks requires.
  void emit_text(size_t length, char sign, bool may_lstrip) {
    std::string_view text = rest().substr(0, length);
    if (sign == '-') {
      text = strip_space(text, Side::right);
    } else if (sign != '+' && may_lstrip && syntax_.lstrip_blocks) {
      size_t line_begin = text.rfind('\n') + 1;
      if ((line_begin > 0 || line_starting_) && strip_space(text.substr(line_begin), Side::left).empty())
        text = text.substr(0, line_begin);
    }
    if (!text.empty()) emit(TokenType::data, std::string(text));
    advance(length);
  }

  char sign_at(size_t offset) const {
    char c = offset < source_.size() ? source_[offset] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  void lex_text() {
    size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string::npos) {
      char kind = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    if (tag == std::string::npos) {
      emit(TokenType::data, std::string(rest()));
      advance(rest().size());
      return;
    }
    char kind = source_[tag + 1];
    char sign = sign_at(tag + 2);
    emit_text(tag - at_, sign, kind != '{');
    if (kind == '%' && lex_raw()) return;
    advance(sign == '\0' ? 2 : 3);
    if (kind == '#') return skip_comment();
    emit(kind == '{' ? TokenType::variable_begin : TokenType::block_begin, "");
    lex_tag(kind == '{');
  }

  // The end of a tag at `at_`: optional sign, "%}" or "#}", then the trimmed white space. 0 if there is none.
  size_t closing_length(std::string_view mark, bool trims_newline) const {
    if (starts_with("-") && rest().substr(1, 2) == mark) return 3 + space_length(at_ + 3);
    if (mark != "}}" && starts_with("+") && rest().substr(1, 2) == mark) return 3;
    if (!starts_with(mark)) return 0;
    return trims_newline && syntax_.trim_blocks && rest().substr(2, 1) == "\n" ? 3 : 2;
  }

  void finish_tag(size_t length) {
    line_starting_ = source_[at_ + length - 1] == '\n';
    advance(length);
  }

  void skip_comment() {
    while (at_ < source_.size()) {
      if (size_t length = closing_length("#}", true)) return finish_tag(length);
      advance(1);
    }
    fail("Missing end of comment tag");
  }

  // Length of "{%[sign] NAME" plus spaces at `from`, or 0.
  size_t keyword_tag_length(size_t from, std::string_view name) const {
    size_t i = from + 2;
    if (sign_at(i) != '\0') ++i;
    i += space_length(i);
    if (std::string_view(source_).substr(i, name.size()) != name) return 0;
    i += name.size();
    return i + space_length(i) - from;
  }

  bool lex_raw() {
    size_t opening = keyword_tag_length(at_, "raw");
    if (opening == 0) return false;
    std::string_view after = rest().substr(opening);
    bool strips = after.substr(0, 3) == "-%}";
    if (!strips && after.substr(0, 2) != "%}") return false;
    size_t length = opening + (strips ? 3 : 2);
    if (strips) length += space_length(at_ + length);
    finish_tag(length);
    for (size_t end = source_.find("{%", at_); end != std::string::npos; end = source_.find("{%", end + 1)) {
      size_t tag = keyword_tag_length(end, "endraw");
      if (tag == 0) continue;
      size_t begin = at_;
      at_ = end + tag;
      size_t closing = closing_length("%}", true);
      at_ = begin;
      if (closing == 0) continue;
      emit_text(end - at_, sign_at(end + 2), true);
      finish_tag(tag + closing);
      return true;
    }
    fail("Missing end of raw directive");
  }

  void lex_tag(bool variable) {
    std::string brackets;
    std::string_view mark = variable ? "}}" : "%}";
    while (true) {
      size_t spaces = space_length(at_);
      advance(spaces);
      if (at_ >= source_.size()) {
        if (!brackets.empty()) fail(std::string("unexpected end of template, expected '") + brackets.back() + "'");
        return;
      }
      if (brackets.empty()) {
        if (size_t length = closing_length(mark, !variable)) {
          emit(variable ? TokenType::variable_end : TokenType::block_end, "");
          return finish_tag(length);
        }
      }
      lex_token(brackets);
    }
  }

  void lex_token(std::string& brackets) {
    if (size_t length = real_literal_length(source_, at_)) return take(TokenType::real, length);
    if (size_t length = integer_literal_length(source_, at_)) return take(TokenType::integer, length);
    if (size_t length = name_length()) return take(TokenType::name, length);
    char c = source_[at_];
    if (c == '"' || c == '\'') return lex_string(c);
    lex_operator(brackets);
  }

  void take(TokenType type, size_t length) {
    emit(type, std::string(rest().substr(0, length)));
    if (type != TokenType::name) std::erase(tokens_.back().text, '_');
    advance(length);
  }

  size_t name_length() const {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_word(next_code_point(source_, next))) break;
      end = next;
    }
    if (end == at_) return 0;
    size_t first = at_;
    char32_t lead = next_code_point(source_, first);
    if (lead != '_' && !is_alpha(lead)) fail("Invalid character in identifier");
    return end - at_;
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      fail(std::string("unexpected char '") + (quote == '\'' ? "\\'" : "\"") + "' at " + std::to_string(at_));
    std::string text = unescape_string_literal(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_);
    emit(TokenType::string, std::move(text));
    advance(end + 1 - at_);
  }

  void lex_operator(std::string& brackets) {
    static constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    for (std::string_view symbol : kLong)
      if (starts_with(symbol)) return take(TokenType::symbol, 2);
    char c = source_[at_];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      fail("unexpected char '" + std::string(1, c) + "' at " + std::to_string(at_));
    }
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) fail(std::string("unexpected '") + c + "'");
      if (brackets.back() != c) fail(std::string("unexpected '") + c + "', expected '" + brackets.back() + "'");
      brackets.pop_back();
    }
    take(TokenType::symbol, 1);
  }

  TemplateSyntax syntax_;
  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const TemplateSyntax& syntax) { return Lexer(source, syntax).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::data:
      return "template data";
    case TokenType::block_begin:
      return "begin of statement block";
    case TokenType::block_end:
      return "end of statement block";
    case TokenType::variable_begin:
      return "begin of print statement";
    case TokenType::variable_end:
      return "end of print statement";
    case TokenType::integer:
      return "integer";
    case TokenType::real:
      return "float";
    case TokenType::string:
      return "string";
    case TokenType::end:
      return "end of template";
    case TokenType::name:
    case TokenType::symbol:
      return token.text;
  }
  return token.text;
}

}  // namespace hone::text::jinja
