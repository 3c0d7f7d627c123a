// The expression nodes of a template.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/text/jinja/builtins/filters.h"
#include "hone/text/jinja/operators.h"
#include "hone/text/jinja/syntax/ast.h"

namespace hone::text::jinja {

struct Constant final : Expression {
  Constant(int line, Value value) : Expression(line), value(std::move(value)) {}
  Value evaluate(Interpreter&) const override { return value; }
  Value value;
};

struct Name final : Expression {
  Name(int line, Symbol symbol) : Expression(line), symbol(symbol) {}
  Value evaluate(Interpreter& interpreter) const override { return interpreter.lookup(symbol); }
  Symbol symbol;
};

struct ListLiteral final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  std::vector<ExpressionPtr> items;
  Sequence flavor = Sequence::list;
};

struct DictLiteral final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};

struct AttributeAccess final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  ExpressionPtr object;
  std::string name;
};

struct ItemAccess final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  ExpressionPtr object, key;
};

struct SliceAccess final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  ExpressionPtr object, start, stop, step;  // the last three may be null
};

struct Call final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter& interpreter) const override;
  Value evaluate_with(Interpreter&, Value caller) const;  // a call block passes its body as `caller`
  ExpressionPtr callee;
  CallArguments arguments;
};

struct FilterUse final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter& interpreter) const override { return apply_to(interpreter, subject->evaluate(interpreter)); }
  Value apply_to(Interpreter&, const Value& subject) const;
  ExpressionPtr subject;  // null in a filter block
  std::string name;
  Filter filter = nullptr;  // null: unknown, an error only when reached
  CallArguments arguments;
};

struct TestUse final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  ExpressionPtr subject;
  std::string name;
  Test test = nullptr;
  CallArguments arguments;
};

struct Binary final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  BinaryOperator op = BinaryOperator::add;
  ExpressionPtr left, right;
};

struct Comparison final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  ExpressionPtr first;
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;
};

struct Concatenation final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  std::vector<ExpressionPtr> parts;
};

struct Logical final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  bool is_and = true;
  ExpressionPtr left, right;
};

struct Unary final : Expression {
  enum class Operator { negate, positive, logical_not };
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  Operator op = Operator::negate;
  ExpressionPtr operand;
};

struct Conditional final : Expression {
  using Expression::Expression;
  Value evaluate(Interpreter&) const override;
  ExpressionPtr condition, then, otherwise;  // `otherwise` may be null
};

}  // namespace hone::text::jinja
