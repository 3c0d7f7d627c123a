// The statement nodes of a template.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/text/jinja/syntax/ast.h"
#include "hone/text/jinja/syntax/expressions.h"

namespace hone::text::jinja {

struct Text final : Statement {
  Text(int line, std::string text) : Statement(line), text(std::move(text)) {}
  Flow execute(Interpreter&) const override;
  std::string text;
};

struct Print final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  ExpressionPtr expression;
};

struct If final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};

struct For final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter& interpreter) const override;
  void run(Interpreter&, const Value& iterable, int depth, Scope* home) const;  // `home`: the scope around the loop
  Target target;
  ExpressionPtr iterable, condition;  // `condition` may be null
  bool recursive = false;
  bool uses_loop = false;
  Symbol loop = 0;
  Block body, otherwise;
};

struct LoopControl final : Statement {
  LoopControl(int line, Flow flow) : Statement(line), flow(flow) {}
  Flow execute(Interpreter&) const override { return flow; }
  Flow flow;
};

struct Set final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  Target target;
  ExpressionPtr value;
};

struct SetBlock final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  Target target;
  std::vector<std::unique_ptr<FilterUse>> filters;
  Block body;
};

struct With final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
};

struct FilterBlock final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  std::vector<std::unique_ptr<FilterUse>> filters;
  Block body;
};

struct MacroStatement final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  Symbol symbol = 0;
  MacroDefinition definition;
};

struct CallBlock final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  std::unique_ptr<Call> call;
  MacroDefinition body;
};

struct Generation final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  Block body;
};

struct NamedBlock final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  bool scoped = false;
  bool required = false;
  std::string name;
  Block body;
};

// include, import, from, extends: a chat template has no other files, so executing one is an error.
struct ForeignTemplate final : Statement {
  ForeignTemplate(int line, std::string tag) : Statement(line), tag(std::move(tag)) {}
  Flow execute(Interpreter&) const override;
  std::string tag;
};

struct ScopedBlock final : Statement {
  using Statement::Statement;
  Flow execute(Interpreter&) const override;
  ExpressionPtr escape;
  Block body;
};

}  // namespace hone::text::jinja
