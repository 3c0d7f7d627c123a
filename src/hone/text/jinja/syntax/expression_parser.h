// The expression half of the parser.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hone/text/jinja/syntax/expressions.h"
#include "hone/text/jinja/syntax/token_stream.h"

namespace hone::text::jinja {

class ExpressionParser {
 protected:
  struct TupleRules {
    bool simplified = false;  // names and literals only: an assignment target
    bool with_condition = true;
    bool parenthesized = false;
    std::string_view end_name;  // a name that ends the tuple, such as `in`
  };

  ExpressionParser(std::vector<Token> tokens, Program& program) : stream_(std::move(tokens)), program_(program) {}

  ExpressionPtr parse_expression(bool with_condition = true);
  ExpressionPtr parse_tuple(TupleRules rules);
  CallArguments parse_call_arguments();
  std::unique_ptr<FilterUse> parse_one_filter(ExpressionPtr subject);  // at the filter's name
  Symbol symbol(const std::string& name);
  void refuse_unknown_names(size_t from);

  // Unknown filters and tests: an error at once, except inside a condition, where jinja2 defers it until reached.
  struct UnknownName {
    std::string message;
    int line;
  };
  std::vector<UnknownName> unknown_names_;
  std::vector<std::string> names_read_;  // every variable read so far; a macro's body uses those after its start
  TokenStream stream_;
  Program& program_;
  int nesting_ = 0;

  struct NestingGuard {
    explicit NestingGuard(ExpressionParser& parser);
    ~NestingGuard() { --parser.nesting_; }
    ExpressionParser& parser;
  };

 private:
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_number();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters(ExpressionPtr node);
  ExpressionPtr parse_subscript(ExpressionPtr node);
  ExpressionPtr parse_bracket(ExpressionPtr node);
  ExpressionPtr parse_slice_rest(int line, ExpressionPtr object, ExpressionPtr start);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_test(ExpressionPtr subject);
  ExpressionPtr binary(int line, BinaryOperator op, ExpressionPtr left, ExpressionPtr right);
  ExpressionPtr string_constant(int line, std::string text);
  std::string parse_dotted_name();
  void grow(Expression& node, const Expression* child);

  std::unordered_map<std::string, Symbol> symbols_;
};

}  // namespace hone::text::jinja
