// The token stream of the parser.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "hone/text/jinja/syntax/lexer.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  const Token& take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool at(TokenType type) const { return current().type == type; }
  bool at_name(std::string_view name) const { return at(TokenType::name) && current().text == name; }
  bool at_symbol(std::string_view symbol) const { return at(TokenType::symbol) && current().text == symbol; }
  bool skip_name(std::string_view name) { return at_name(name) && (take(), true); }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (take(), true); }

  const Token& expect(TokenType type, std::string_view what) {
    if (!at(type)) fail_expected(what);
    return take();
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail_expected(symbol);
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected(name);
  }

  [[noreturn]] void fail(const std::string& message) const { throw TemplateFailure(message, line()); }
  [[noreturn]] void fail_expected(std::string_view what) const {
    if (at(TokenType::end)) fail("unexpected end of template, expected '" + std::string(what) + "'.");
    fail("expected token '" + std::string(what) + "', got '" + describe(current()) + "'");
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace hone::text::jinja
