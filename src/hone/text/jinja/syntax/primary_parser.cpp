// Values without operators: names, literals, tuples, lists and dicts.
#include <charconv>

#include "hone/text/jinja/syntax/expression_parser.h"

namespace hone::text::jinja {

ExpressionPtr ExpressionParser::string_constant(int line, std::string text) {
  auto object = std::make_unique<StringObject>(std::move(text));
  object->immortal = true;
  object->length();  // counted now: later renders may run on several threads
  Value value = Value::object(Kind::string, object.get());
  program_.constants.push_back(std::move(object));
  return std::make_unique<Constant>(line, std::move(value));
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token& token = stream_.take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return std::make_unique<Constant>(token.line, Value::boolean(true));
  if (name == "false" || name == "False") return std::make_unique<Constant>(token.line, Value::boolean(false));
  if (name == "none" || name == "None") return std::make_unique<Constant>(token.line, Value::none());
  names_read_.push_back(name);
  return std::make_unique<Name>(token.line, symbol(name));
}

ExpressionPtr ExpressionParser::parse_number() {
  const Token& token = stream_.take();
  if (token.type == TokenType::real)
    return std::make_unique<Constant>(token.line, Value::real(std::strtod(token.text.c_str(), nullptr)));
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && !(digits[1] >= '0' && digits[1] <= '9')) {
    char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value, base).ec != std::errc()) {
    throw TemplateFailure("integer literal does not fit 64 bits", token.line);
  }
  return std::make_unique<Constant>(token.line, Value::integer(value));
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  switch (token.type) {
    case TokenType::name:
      return parse_name();
    case TokenType::integer:
    case TokenType::real:
      return parse_number();
    case TokenType::string: {
      std::string text;
      while (stream_.at(TokenType::string)) text += stream_.take().text;
      return string_constant(token.line, std::move(text));
    }
    default:
      break;
  }
  if (stream_.skip_symbol("(")) {
    ExpressionPtr node = parse_tuple({.parenthesized = true});
    stream_.expect_symbol(")");
    return node;
  }
  if (stream_.at_symbol("[")) return parse_list();
  if (stream_.at_symbol("{")) return parse_dict();
  stream_.fail("unexpected '" + describe(token) + "'");
}

ExpressionPtr ExpressionParser::parse_tuple(TupleRules rules) {
  NestingGuard guard(*this);
  auto tuple = std::make_unique<ListLiteral>(stream_.line());
  tuple->flavor = Sequence::tuple;
  bool is_tuple = false;
  while (true) {
    if (!tuple->items.empty()) stream_.expect_symbol(",");
    bool ends = stream_.at(TokenType::variable_end) || stream_.at(TokenType::block_end) || stream_.at_symbol(")") ||
                (!rules.end_name.empty() && stream_.at_name(rules.end_name));
    if (ends) break;
    tuple->items.push_back(rules.simplified ? parse_primary() : parse_expression(rules.with_condition));
    grow(*tuple, tuple->items.back().get());
    if (!stream_.at_symbol(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (!tuple->items.empty()) return std::move(tuple->items.front());
  if (!rules.parenthesized) stream_.fail("Expected an expression, got '" + describe(stream_.current()) + "'");
  return tuple;
}

ExpressionPtr ExpressionParser::parse_list() {
  auto node = std::make_unique<ListLiteral>(stream_.take().line);
  while (!stream_.at_symbol("]")) {
    if (!node->items.empty()) stream_.expect_symbol(",");
    if (stream_.at_symbol("]")) break;
    node->items.push_back(parse_expression());
    grow(*node, node->items.back().get());
  }
  stream_.expect_symbol("]");
  return node;
}

ExpressionPtr ExpressionParser::parse_dict() {
  auto node = std::make_unique<DictLiteral>(stream_.take().line);
  while (!stream_.at_symbol("}")) {
    if (!node->items.empty()) stream_.expect_symbol(",");
    if (stream_.at_symbol("}")) break;
    ExpressionPtr key = parse_expression();
    stream_.expect_symbol(":");
    ExpressionPtr value = parse_expression();
    grow(*node, key.get());
    grow(*node, value.get());
    node->items.emplace_back(std::move(key), std::move(value));
  }
  stream_.expect_symbol("}");
  return node;
}

}  // namespace hone::text::jinja
