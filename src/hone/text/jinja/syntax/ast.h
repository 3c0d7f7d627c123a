// The parsed template: expressions evaluate themselves, statements execute themselves.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/text/jinja/interpreter.h"
#include "hone/text/jinja/value.h"

namespace hone::text::jinja {

struct Expression {
  explicit Expression(int line) : line(line) {}
  virtual ~Expression() = default;
  virtual Value evaluate(Interpreter&) const = 0;
  int line;
  int height = 1;  // of the tree below; bounded by the parser, and with it the stack evaluation needs
};
using ExpressionPtr = std::unique_ptr<Expression>;

enum class Flow { normal, break_loop, continue_loop };

struct Statement {
  explicit Statement(int line) : line(line) {}
  virtual ~Statement() = default;
  virtual Flow execute(Interpreter&) const = 0;
  int line;
};
using StatementPtr = std::unique_ptr<Statement>;
using Block = std::vector<StatementPtr>;

Flow execute_block(const Block& block, Interpreter& interpreter);

// Targets of `set`, `for` and `with`.
struct Target {
  enum class Form { name, attribute, tuple } form = Form::name;
  Symbol symbol = 0;
  std::string attribute;
  std::vector<Target> parts;
  void assign(Interpreter&, Value value) const;
};

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, double_star;
  Arguments evaluate(Interpreter&, Value caller = Value()) const;  // `caller`: the body of a call block
  bool empty() const { return positional.empty() && named.empty() && !star && !double_star; }
};

struct Parameter {
  std::string name;
  Symbol symbol;
  ExpressionPtr fallback;  // may be null
};

// The body of a macro, of a call block, or of a generation block.
struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  Symbol varargs = 0, kwargs = 0, caller = 0;
};

Value make_macro(Interpreter& interpreter, const MacroDefinition& definition);

struct Program {
  std::vector<std::unique_ptr<Object>> constants;  // the immortal strings of the tree; declared first, so freed last
  std::vector<std::string> symbols;
  Block body;
};

}  // namespace hone::text::jinja
