#include "hone/text/jinja/syntax/target_parser.h"

namespace hone::text::jinja {

Target TargetParser::parse_target(bool with_namespace, std::string_view end_name) {
  NestingGuard guard(*this);
  Target tuple;
  tuple.form = Target::Form::tuple;
  bool is_tuple = false;
  while (true) {
    if (!tuple.parts.empty()) stream_.expect_symbol(",");
    bool ends = stream_.at(TokenType::variable_end) || stream_.at(TokenType::block_end) || stream_.at_symbol(")") ||
                (!end_name.empty() && stream_.at_name(end_name));
    if (ends) break;
    tuple.parts.push_back(parse_target_part(with_namespace));
    if (!stream_.at_symbol(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (tuple.parts.empty()) stream_.fail("Expected an expression, got '" + describe(stream_.current()) + "'");
  return std::move(tuple.parts.front());
}

Target TargetParser::parse_target_part(bool with_namespace) {
  if (stream_.skip_symbol("(")) {
    Target inner;
    inner.form = Target::Form::tuple;
    if (!stream_.at_symbol(")")) inner = parse_target(false);
    stream_.expect_symbol(")");
    return inner;
  }
  if (!stream_.at(TokenType::name)) stream_.fail("can't assign to '" + describe(stream_.current()) + "'");
  Target target;
  target.symbol = parse_store_name();
  if (with_namespace && stream_.skip_symbol(".")) {
    target.form = Target::Form::attribute;
    target.attribute = stream_.expect(TokenType::name, "name").text;
  }
  return target;
}

Symbol TargetParser::parse_store_name() {
  const std::string& name = stream_.expect(TokenType::name, "name").text;
  for (std::string_view reserved : {"true", "false", "none", "True", "False", "None"})
    if (name == reserved) stream_.fail("can't assign to '" + name + "'");
  return symbol(name);
}

std::vector<Parameter> TargetParser::parse_signature() {
  std::vector<Parameter> parameters;
  stream_.expect_symbol("(");
  while (!stream_.at_symbol(")")) {
    if (!parameters.empty()) stream_.expect_symbol(",");
    Parameter parameter;
    parameter.name = stream_.current().text;
    parameter.symbol = parse_store_name();
    for (const Parameter& other : parameters)
      if (other.symbol == parameter.symbol) stream_.fail("duplicate argument '" + parameter.name + "'");
    if (stream_.skip_symbol("=")) {
      parameter.fallback = parse_expression();
    } else if (!parameters.empty() && parameters.back().fallback) {
      stream_.fail("non-default argument follows default argument");
    }
    parameters.push_back(std::move(parameter));
  }
  stream_.expect_symbol(")");
  return parameters;
}

void TargetParser::refuse_loop_target(const Target& target) {
  if (target.form == Target::Form::name && program_.symbols[target.symbol] == "loop") {
    stream_.fail("Can't assign to special loop variable in for-loop.");
  }
  for (const Target& part : target.parts) refuse_loop_target(part);
}

}  // namespace hone::text::jinja
