// What may follow a value: attributes, items, slices, calls, filters and tests.
#include "hone/text/jinja/syntax/expression_parser.h"

namespace hone::text::jinja {

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (stream_.at_symbol(".") || stream_.at_symbol("[")) {
      node = parse_subscript(std::move(node));
    } else if (stream_.at_symbol("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr node) {
  while (true) {
    if (stream_.skip_symbol("|")) {
      node = parse_one_filter(std::move(node));
    } else if (stream_.at_name("is")) {
      node = parse_test(std::move(node));
    } else if (stream_.at_symbol("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  int line = stream_.line();
  if (!stream_.skip_symbol(".")) return parse_bracket(std::move(object));
  if (stream_.at(TokenType::name)) {
    auto node = std::make_unique<AttributeAccess>(line);
    node->name = stream_.take().text;
    grow(*node, object.get());
    node->object = std::move(object);
    return node;
  }
  if (!stream_.at(TokenType::integer)) stream_.fail("expected name or number");
  auto node = std::make_unique<ItemAccess>(line);
  grow(*node, object.get());
  node->object = std::move(object);
  node->key = parse_number();
  return node;
}

ExpressionPtr ExpressionParser::parse_bracket(ExpressionPtr object) {
  int line = stream_.take().line;
  if (stream_.at_symbol(":")) return parse_slice_rest(line, std::move(object), nullptr);
  auto tuple = std::make_unique<ListLiteral>(line);
  tuple->flavor = Sequence::tuple;
  while (!stream_.at_symbol("]")) {
    if (!tuple->items.empty()) stream_.expect_symbol(",");
    tuple->items.push_back(parse_expression());
    grow(*tuple, tuple->items.back().get());
    if (stream_.at_symbol(":")) {
      if (tuple->items.size() > 1) stream_.fail("slices inside tuples are not supported");
      return parse_slice_rest(line, std::move(object), std::move(tuple->items.front()));
    }
  }
  stream_.expect_symbol("]");
  auto node = std::make_unique<ItemAccess>(line);
  node->key = tuple->items.size() == 1 ? std::move(tuple->items.front()) : std::move(tuple);
  grow(*node, object.get());
  grow(*node, node->key.get());
  node->object = std::move(object);
  return node;
}

ExpressionPtr ExpressionParser::parse_slice_rest(int line, ExpressionPtr object, ExpressionPtr start) {
  auto node = std::make_unique<SliceAccess>(line);
  node->object = std::move(object);
  node->start = std::move(start);
  stream_.expect_symbol(":");
  if (!stream_.at_symbol(":") && !stream_.at_symbol("]")) node->stop = parse_expression();
  if (stream_.skip_symbol(":") && !stream_.at_symbol("]")) node->step = parse_expression();
  if (stream_.at_symbol(",")) stream_.fail("slices inside tuples are not supported");
  stream_.expect_symbol("]");
  for (const Expression* child : {node->object.get(), node->start.get(), node->stop.get(), node->step.get()}) grow(*node, child);
  return node;
}

CallArguments ExpressionParser::parse_call_arguments() {
  CallArguments arguments;
  auto refuse_if = [&](bool wrong) {
    if (wrong) stream_.fail("invalid syntax for function call expression");
  };
  stream_.expect_symbol("(");
  bool needs_comma = false;
  while (!stream_.at_symbol(")")) {
    if (needs_comma) {
      stream_.expect_symbol(",");
      if (stream_.at_symbol(")")) break;
    }
    if (stream_.at_symbol("*")) {
      refuse_if(arguments.star || arguments.double_star);
      stream_.take();
      arguments.star = parse_expression();
    } else if (stream_.at_symbol("**")) {
      refuse_if(arguments.double_star != nullptr);
      stream_.take();
      arguments.double_star = parse_expression();
    } else if (stream_.at(TokenType::name) && stream_.ahead().type == TokenType::symbol && stream_.ahead().text == "=") {
      refuse_if(arguments.double_star != nullptr);
      std::string name = stream_.take().text;
      stream_.take();
      for (const auto& given : arguments.named)
        if (given.first == name) stream_.fail("keyword argument repeated: " + name);
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      refuse_if(arguments.star || arguments.double_star || !arguments.named.empty());
      arguments.positional.push_back(parse_expression());
    }
    needs_comma = true;
  }
  stream_.expect_symbol(")");
  return arguments;
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  auto node = std::make_unique<Call>(stream_.line());
  node->arguments = parse_call_arguments();
  grow(*node, callee.get());
  node->callee = std::move(callee);
  return node;
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = stream_.expect(TokenType::name, "name").text;
  while (stream_.skip_symbol(".")) name += "." + stream_.expect(TokenType::name, "name").text;
  return name;
}

std::unique_ptr<FilterUse> ExpressionParser::parse_one_filter(ExpressionPtr subject) {
  auto node = std::make_unique<FilterUse>(stream_.line());
  node->name = parse_dotted_name();
  node->filter = find_filter(node->name);
  if (node->filter == nullptr) unknown_names_.push_back({"No filter named '" + node->name + "'.", node->line});
  if (stream_.at_symbol("(")) node->arguments = parse_call_arguments();
  grow(*node, subject.get());
  node->subject = std::move(subject);
  return node;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr subject) {
  stream_.take();
  bool negated = stream_.skip_name("not");
  auto node = std::make_unique<TestUse>(stream_.line());
  node->name = parse_dotted_name();
  node->test = find_test(node->name);
  if (node->test == nullptr) unknown_names_.push_back({"No test named '" + node->name + "'.", node->line});
  bool literal = stream_.at(TokenType::name) || stream_.at(TokenType::string) || stream_.at(TokenType::integer) ||
                 stream_.at(TokenType::real) || stream_.at_symbol("[") || stream_.at_symbol("{");
  bool keyword = stream_.at_name("else") || stream_.at_name("or") || stream_.at_name("and");
  if (stream_.at_symbol("(")) {
    node->arguments = parse_call_arguments();
  } else if (literal && !keyword) {
    if (stream_.at_name("is")) stream_.fail("You cannot chain multiple tests with is");
    node->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  grow(*node, subject.get());
  node->subject = std::move(subject);
  if (!negated) return node;
  auto inverse = std::make_unique<Unary>(node->line);
  inverse->op = Unary::Operator::logical_not;
  grow(*inverse, node.get());
  inverse->operand = std::move(node);
  return inverse;
}

}  // namespace hone::text::jinja
