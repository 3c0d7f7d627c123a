// Splits a template into text and tag tokens, with jinja2's rules for whitespace.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hone/text/chat_template.h"

namespace hone::text::jinja {

enum class TokenType { data, block_begin, block_end, variable_begin, variable_end, name, string, integer, real, symbol, end };

struct Token {
  TokenType type;
  std::string text;  // literal text, name, unescaped string, digits or operator
  int line;
};

// Throws TemplateFailure with the line.
std::vector<Token> tokenize(std::string_view source, const TemplateSyntax& syntax = {});

// The token's name in messages: "'{'", "end of print statement".
std::string describe(const Token& token);

}  // namespace hone::text::jinja
