#include "hone/text/jinja/syntax/expression_parser.h"

#include <charconv>

namespace hone::text::jinja {

namespace {
constexpr int kMaxNesting = 600;  // nesting of grammar rules in the source; a bracket takes four
constexpr int kMaxHeight = 400;   // depth of one expression's tree
}  // namespace

ExpressionParser::NestingGuard::NestingGuard(ExpressionParser& parser) : parser(parser) {
  if (++parser.nesting_ > kMaxNesting) parser.stream_.fail("the template is nested too deeply");
}

void ExpressionParser::grow(Expression& node, const Expression* child) {
  if (child == nullptr) return;
  node.height = std::max(node.height, child->height + 1);
  if (node.height > kMaxHeight) stream_.fail("the expression is too long");
}

Symbol ExpressionParser::symbol(const std::string& name) {
  auto [it, added] = symbols_.try_emplace(name, static_cast<Symbol>(program_.symbols.size()));
  if (added) program_.symbols.push_back(name);
  return it->second;
}

void ExpressionParser::refuse_unknown_names(size_t from) {
  if (unknown_names_.size() > from) throw TemplateFailure(unknown_names_[from].message, unknown_names_[from].line);
}

ExpressionPtr ExpressionParser::string_constant(int line, std::string text) {
  auto object = std::make_unique<StringObject>(std::move(text));
  object->immortal = true;
  object->length();  // counted now: later renders may run on several threads
  Value value = Value::object(Kind::string, object.get());
  program_.constants.push_back(std::move(object));
  return std::make_unique<Constant>(line, std::move(value));
}

ExpressionPtr ExpressionParser::parse_expression(bool with_condition) {
  NestingGuard guard(*this);
  return with_condition ? parse_conditional() : parse_or();
}

ExpressionPtr ExpressionParser::parse_conditional() {
  NestingGuard guard(*this);
  int line = stream_.line();
  size_t unknown_before = unknown_names_.size();
  ExpressionPtr node = parse_or();
  while (stream_.skip_name("if")) {
    auto conditional = std::make_unique<Conditional>(line);
    conditional->then = std::move(node);
    conditional->condition = parse_or();
    if (stream_.skip_name("else")) conditional->otherwise = parse_conditional();
    for (const Expression* child : {conditional->then.get(), conditional->condition.get(), conditional->otherwise.get()}) {
      grow(*conditional, child);
    }
    unknown_names_.resize(unknown_before);
    node = std::move(conditional);
    line = stream_.line();
  }
  return node;
}

ExpressionPtr ExpressionParser::parse_or() {
  int line = stream_.line();
  ExpressionPtr left = parse_and();
  while (stream_.skip_name("or")) {
    auto node = std::make_unique<Logical>(line);
    node->is_and = false;
    node->left = std::move(left);
    node->right = parse_and();
    grow(*node, node->left.get());
    grow(*node, node->right.get());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  int line = stream_.line();
  ExpressionPtr left = parse_not();
  while (stream_.skip_name("and")) {
    auto node = std::make_unique<Logical>(line);
    node->left = std::move(left);
    node->right = parse_not();
    grow(*node, node->left.get());
    grow(*node, node->right.get());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!stream_.at_name("not")) return parse_comparison();
  NestingGuard guard(*this);
  auto node = std::make_unique<Unary>(stream_.take().line);
  node->op = Unary::Operator::logical_not;
  node->operand = parse_not();
  grow(*node, node->operand.get());
  return node;
}

ExpressionPtr ExpressionParser::parse_comparison() {
  static const std::unordered_map<std::string_view, CompareOperator> kOperators = {
      {"==", CompareOperator::equal},      {"!=", CompareOperator::not_equal}, {"<", CompareOperator::less},
      {"<=", CompareOperator::less_equal}, {">", CompareOperator::greater},    {">=", CompareOperator::greater_equal}};
  int line = stream_.line();
  ExpressionPtr first = parse_sum();
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;
  while (true) {
    CompareOperator op;
    if (stream_.at(TokenType::symbol) && kOperators.contains(stream_.current().text)) {
      op = kOperators.at(stream_.take().text);
    } else if (stream_.skip_name("in")) {
      op = CompareOperator::in;
    } else if (stream_.at_name("not") && stream_.ahead().type == TokenType::name && stream_.ahead().text == "in") {
      stream_.take();
      stream_.take();
      op = CompareOperator::not_in;
    } else {
      break;
    }
    rest.emplace_back(op, parse_sum());
  }
  if (rest.empty()) return first;
  auto node = std::make_unique<Comparison>(line);
  grow(*node, first.get());
  for (const auto& operand : rest) grow(*node, operand.second.get());
  node->first = std::move(first);
  node->rest = std::move(rest);
  return node;
}

ExpressionPtr ExpressionParser::binary(int line, BinaryOperator op, ExpressionPtr left, ExpressionPtr right) {
  auto node = std::make_unique<Binary>(line);
  node->op = op;
  grow(*node, left.get());
  grow(*node, right.get());
  node->left = std::move(left);
  node->right = std::move(right);
  return node;
}

ExpressionPtr ExpressionParser::parse_sum() {
  int line = stream_.line();
  ExpressionPtr left = parse_concatenation();
  while (stream_.at_symbol("+") || stream_.at_symbol("-")) {
    BinaryOperator op = stream_.take().text == "+" ? BinaryOperator::add : BinaryOperator::subtract;
    left = binary(line, op, std::move(left), parse_concatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concatenation() {
  int line = stream_.line();
  ExpressionPtr first = parse_product();
  if (!stream_.at_symbol("~")) return first;
  auto node = std::make_unique<Concatenation>(line);
  node->parts.push_back(std::move(first));
  while (stream_.skip_symbol("~")) node->parts.push_back(parse_product());
  for (const auto& part : node->parts) grow(*node, part.get());
  return node;
}

ExpressionPtr ExpressionParser::parse_product() {
  static const std::unordered_map<std::string_view, BinaryOperator> kOperators = {{"*", BinaryOperator::multiply},
                                                                                  {"/", BinaryOperator::divide},
                                                                                  {"//", BinaryOperator::floor_divide},
                                                                                  {"%", BinaryOperator::modulo}};
  int line = stream_.line();
  ExpressionPtr left = parse_power();
  while (stream_.at(TokenType::symbol) && kOperators.contains(stream_.current().text)) {
    BinaryOperator op = kOperators.at(stream_.take().text);
    left = binary(line, op, std::move(left), parse_power());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_power() {
  int line = stream_.line();
  ExpressionPtr left = parse_unary();
  while (stream_.skip_symbol("**")) left = binary(line, BinaryOperator::power, std::move(left), parse_unary());
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  NestingGuard guard(*this);
  ExpressionPtr node;
  if (stream_.at_symbol("-") || stream_.at_symbol("+")) {
    auto unary = std::make_unique<Unary>(stream_.line());
    unary->op = stream_.take().text == "-" ? Unary::Operator::negate : Unary::Operator::positive;
    unary->operand = parse_unary(false);
    grow(*unary, unary->operand.get());
    node = std::move(unary);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters(std::move(node)) : std::move(node);
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
