#include "hone/text/jinja/syntax/expression_parser.h"

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

}  // namespace hone::text::jinja
