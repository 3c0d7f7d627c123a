#include "hone/text/jinja/syntax/statements.h"

#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/loop.h"

namespace hone::text::jinja {

Flow execute_block(const Block& block, Interpreter& interpreter) {
  for (const auto& statement : block) {
    Flow flow = statement->execute(interpreter);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

void Target::assign(Interpreter& interpreter, Value value) const {
  switch (form) {
    case Form::name:
      interpreter.assign(symbol, std::move(value));
      return;
    case Form::attribute: {
      Value owner = interpreter.lookup(symbol);
      auto* space = owner.is(Kind::native) ? dynamic_cast<Namespace*>(&owner.as_native()) : nullptr;
      if (space == nullptr) throw TemplateFailure("cannot assign attribute on non-namespace object");
      space->set(attribute, std::move(value));
      return;
    }
    case Form::tuple: {
      if (value.is(Kind::undefined) && !parts.empty())
        throw TemplateFailure("not enough values to unpack: " + value.as_undefined().explain());
      std::vector<Value> values = interpreter.to_vector(value);
      if (values.size() != parts.size()) {
        throw TemplateFailure(fmt::format("cannot unpack {} values into {} names", values.size(), parts.size()));
      }
      for (size_t i = 0; i < parts.size(); ++i) parts[i].assign(interpreter, std::move(values[i]));
    }
  }
}

Flow Text::execute(Interpreter& interpreter) const {
  interpreter.write(text);
  return Flow::normal;
}

Flow Print::execute(Interpreter& interpreter) const {
  interpreter.set_line(line);
  interpreter.write_value(expression->evaluate(interpreter));
  return Flow::normal;
}

Flow If::execute(Interpreter& interpreter) const {
  interpreter.check_stack();
  for (const auto& [condition, body] : branches) {
    interpreter.set_line(condition->line);
    interpreter.step();
    if (truthy(condition->evaluate(interpreter))) return execute_block(body, interpreter);
  }
  return execute_block(otherwise, interpreter);
}

Flow For::execute(Interpreter& interpreter) const {
  interpreter.set_line(line);
  run(interpreter, iterable->evaluate(interpreter), 0, interpreter.scope());
  return Flow::normal;
}

void For::run(Interpreter& interpreter, const Value& values, int depth, Scope* home) const {
  interpreter.check_stack();
  auto* state = new LoopObject(interpreter, *this, values, depth, home);
  Value holder = Value::object(Kind::native, state);
  bool ran = false;
  {
    Interpreter::ScopeGuard scope(interpreter, home);
    Value item;
    while (state->advance(interpreter, item)) {
      if (ran) scope.renew();
      ran = true;
      if (uses_loop) interpreter.assign(loop, holder);
      target.assign(interpreter, std::move(item));
      if (execute_block(body, interpreter) == Flow::break_loop) break;
    }
  }
  state->finish();
  if (!ran && !otherwise.empty()) {
    Interpreter::ScopeGuard scope(interpreter, home);
    execute_block(otherwise, interpreter);
  }
}

Flow Set::execute(Interpreter& interpreter) const {
  interpreter.set_line(line);
  target.assign(interpreter, value->evaluate(interpreter));
  return Flow::normal;
}

namespace {

Value capture(Interpreter& interpreter, const Block& body, const std::vector<std::unique_ptr<FilterUse>>& filters) {
  Interpreter::ScopeGuard scope(interpreter);
  Value text;
  {
    Interpreter::CaptureGuard output(interpreter);
    execute_block(body, interpreter);
    text = output.take();
  }
  for (const auto& filter : filters) text = filter->apply_to(interpreter, text);
  return text;
}

}  // namespace

Flow SetBlock::execute(Interpreter& interpreter) const {
  Value text = capture(interpreter, body, filters);
  interpreter.set_line(line);
  target.assign(interpreter, std::move(text));
  return Flow::normal;
}

Flow FilterBlock::execute(Interpreter& interpreter) const {
  interpreter.write_value(capture(interpreter, body, filters));
  return Flow::normal;
}

Flow With::execute(Interpreter& interpreter) const {
  interpreter.check_stack();
  std::vector<Value> values;
  for (const auto& [target, expression] : assignments) values.push_back(expression->evaluate(interpreter));
  Interpreter::ScopeGuard scope(interpreter);
  for (size_t i = 0; i < values.size(); ++i) assignments[i].first.assign(interpreter, std::move(values[i]));
  return execute_block(body, interpreter);
}

Flow MacroStatement::execute(Interpreter& interpreter) const {
  interpreter.assign(symbol, make_macro(interpreter, definition));
  return Flow::normal;
}

Flow CallBlock::execute(Interpreter& interpreter) const {
  interpreter.check_stack();
  interpreter.write_value(call->evaluate_with(interpreter, make_macro(interpreter, body)));
  return Flow::normal;
}

Flow Generation::execute(Interpreter& interpreter) const {
  interpreter.check_stack();
  Interpreter::ScopeGuard scope(interpreter);
  size_t begin = interpreter.root_output_size();
  size_t before = interpreter.out().size();
  execute_block(body, interpreter);
  // Inner blocks come first, as they finish first.
  interpreter.generation_spans().push_back({begin, begin + interpreter.out().size() - before});
  return Flow::normal;
}

Flow NamedBlock::execute(Interpreter& interpreter) const {
  interpreter.check_stack();
  if (required) throw TemplateFailure("Required block '" + name + "' not found", line);
  Interpreter::ScopeGuard scope(interpreter, scoped ? interpreter.scope() : nullptr);
  execute_block(body, interpreter);
  return Flow::normal;
}

Flow ForeignTemplate::execute(Interpreter&) const {
  throw TemplateFailure("'" + tag + "' is refused: a chat template cannot load other templates", line);
}

Flow ScopedBlock::execute(Interpreter& interpreter) const {
  interpreter.set_line(line);
  if (truthy(escape->evaluate(interpreter))) throw TemplateFailure("autoescape is not supported: chat templates are plain text");
  Interpreter::ScopeGuard scope(interpreter);
  return execute_block(body, interpreter);
}

}  // namespace hone::text::jinja
