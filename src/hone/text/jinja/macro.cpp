#include <algorithm>

#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/syntax/ast.h"

namespace hone::text::jinja {

namespace {

class Macro final : public NativeObject {
 public:
  Macro(const MacroDefinition& definition, Scope* home) : definition_(definition), home_(home) {
    if (home != nullptr) home_holder_ = Value::object(Kind::native, home);
  }
  std::string_view type_name() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  std::string show(Interpreter&) override {
    return definition_.name.empty() ? "<Macro anonymous>" : "<Macro '" + definition_.name + "'>";
  }

  Value attribute(Interpreter& interpreter, std::string_view name) override {
    if (name == "name") return Value::string(definition_.name);
    if (name == "catch_varargs") return Value::boolean(definition_.uses_varargs);
    if (name == "catch_kwargs") return Value::boolean(definition_.uses_kwargs);
    if (name == "caller") return Value::boolean(definition_.uses_caller);
    if (name != "arguments") return Value();
    std::vector<Value> names;
    for (const Parameter& parameter : definition_.parameters) names.push_back(Value::string(parameter.name));
    return interpreter.list(std::move(names), Sequence::tuple);
  }

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    Interpreter::ScopeGuard scope(interpreter, home_);
    bind(interpreter, arguments);
    Interpreter::CaptureGuard output(interpreter);
    execute_block(definition_.body, interpreter);
    return output.take();
  }

 private:
  static Value take_named(Arguments& arguments, std::string_view name) {
    auto it =
        std::find_if(arguments.named.begin(), arguments.named.end(), [&](const auto& entry) { return entry.first == name; });
    if (it == arguments.named.end()) return Value();
    Value value = std::move(it->second);
    arguments.named.erase(it);
    return value;
  }

  void bind(Interpreter& interpreter, Arguments& arguments) const {
    const auto& parameters = definition_.parameters;
    std::vector<Value> values(parameters.size());
    size_t given = std::min(parameters.size(), arguments.positional.size());
    bool caller_is_parameter = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      values[i] = i < given ? std::move(arguments.positional[i]) : take_named(arguments, parameters[i].name);
      caller_is_parameter |= parameters[i].name == "caller";
    }
    if (definition_.uses_caller && !caller_is_parameter) {
      Value caller = take_named(arguments, "caller");
      if (caller.is(Kind::missing)) caller = make_undefined(UndefinedObject::Reason::message, "No caller defined");
      interpreter.assign(definition_.caller, std::move(caller));
    }
    bind_rest(interpreter, arguments, given);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (values[i].is(Kind::missing) && parameters[i].fallback) values[i] = parameters[i].fallback->evaluate(interpreter);
      if (values[i].is(Kind::missing)) {
        values[i] = make_undefined(UndefinedObject::Reason::message, "parameter '" + parameters[i].name + "' was not provided");
      }
      interpreter.assign(parameters[i].symbol, std::move(values[i]));
    }
  }

  void bind_rest(Interpreter& interpreter, Arguments& arguments, size_t given) const {
    if (definition_.uses_kwargs) {
      std::vector<std::pair<Value, Value>> rest;
      for (auto& [name, value] : arguments.named) rest.emplace_back(Value::string(name), std::move(value));
      interpreter.assign(definition_.kwargs, make_dict(std::move(rest)));
    } else if (!arguments.named.empty()) {
      throw TemplateFailure(
          fmt::format("macro '{}' takes no keyword argument '{}'", definition_.name, arguments.named.front().first));
    }
    if (definition_.uses_varargs) {
      std::vector<Value> rest(std::make_move_iterator(arguments.positional.begin() + static_cast<ptrdiff_t>(given)),
                              std::make_move_iterator(arguments.positional.end()));
      interpreter.assign(definition_.varargs, interpreter.list(std::move(rest), Sequence::tuple));
    } else if (arguments.positional.size() > definition_.parameters.size()) {
      throw TemplateFailure(
          fmt::format("macro '{}' takes not more than {} argument(s)", definition_.name, definition_.parameters.size()));
    }
  }

  const MacroDefinition& definition_;
  Scope* home_;
  Value home_holder_;
};

}  // namespace

Value make_macro(Interpreter& interpreter, const MacroDefinition& definition) {
  Scope* home = interpreter.scope();
  if (home != nullptr && !home->captured) {
    home->captured = true;
    interpreter.register_cyclic(home);
  }
  interpreter.step();
  return Value::object(Kind::native, new Macro(definition, home));
}

}  // namespace hone::text::jinja
