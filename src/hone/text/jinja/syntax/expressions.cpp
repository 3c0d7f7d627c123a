#include "hone/text/jinja/syntax/expressions.h"

#include "hone/text/jinja/attributes.h"
#include "hone/text/jinja/builtins/text_operations.h"

namespace hone::text::jinja {

Value ListLiteral::evaluate(Interpreter& interpreter) const {
  std::vector<Value> values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(item->evaluate(interpreter));
  return interpreter.list(std::move(values), flavor);
}

Value DictLiteral::evaluate(Interpreter& interpreter) const {
  interpreter.step(8 + 2 * items.size());
  std::vector<std::pair<Value, Value>> pairs;
  for (const auto& [key, value] : items) {
    Value name = key->evaluate(interpreter);
    pairs.emplace_back(std::move(name), value->evaluate(interpreter));
  }
  return make_dict(std::move(pairs));
}

Value AttributeAccess::evaluate(Interpreter& interpreter) const {
  Value owner = object->evaluate(interpreter);
  interpreter.set_line(line);
  return interpreter.get_attribute(owner, name);
}

Value ItemAccess::evaluate(Interpreter& interpreter) const {
  Value owner = object->evaluate(interpreter);
  Value index = key->evaluate(interpreter);
  interpreter.set_line(line);
  return interpreter.get_item(owner, index);
}

Value SliceAccess::evaluate(Interpreter& interpreter) const {
  auto part = [&](const ExpressionPtr& expression) { return expression ? expression->evaluate(interpreter) : Value::none(); };
  Value owner = object->evaluate(interpreter);
  Value from = part(start), to = part(stop), stride = part(step);
  interpreter.set_line(line);
  return interpreter.slice(owner, from, to, stride);
}

Arguments CallArguments::evaluate(Interpreter& interpreter, Value caller) const {
  Arguments result;
  result.positional.reserve(positional.size());
  for (const auto& argument : positional) result.positional.push_back(argument->evaluate(interpreter));
  for (const auto& [name, argument] : named) result.named.emplace_back(name, argument->evaluate(interpreter));
  if (!caller.is(Kind::missing)) result.named.emplace_back("caller", std::move(caller));
  if (star) {
    for (Value& value : interpreter.to_vector(star->evaluate(interpreter))) result.positional.push_back(std::move(value));
  }
  if (double_star) {
    Value mapping = double_star->evaluate(interpreter);
    if (!mapping.is(Kind::dict)) throw TemplateFailure("argument after ** must be a mapping, not " + type_name(mapping));
    for (const auto& [name, value] : mapping.as_dict().items) {
      if (!name.is(Kind::string)) throw TemplateFailure("keywords must be strings");
      for (const auto& given : result.named)
        if (given.first == name.text()) throw TemplateFailure("got multiple values for keyword argument '" + given.first + "'");
      result.named.emplace_back(name.text(), value);
    }
  }
  return result;
}

Value Call::evaluate(Interpreter& interpreter) const {
  interpreter.check_stack();
  if (auto* access = dynamic_cast<const AttributeAccess*>(callee.get())) {
    Value owner = access->object->evaluate(interpreter);
    interpreter.set_line(line);
    if (Method method = find_method(owner, access->name)) {
      Arguments values = arguments.evaluate(interpreter);
      interpreter.step();
      interpreter.set_line(line);
      return like_origin(owner, method(interpreter, owner, values));
    }
    Value function = interpreter.get_attribute(owner, access->name);
    Arguments values = arguments.evaluate(interpreter);
    interpreter.set_line(line);
    return interpreter.call(function, values);
  }
  return evaluate_with(interpreter, Value());
}

Value Call::evaluate_with(Interpreter& interpreter, Value caller) const {
  Value function = callee->evaluate(interpreter);
  Arguments values = arguments.evaluate(interpreter, std::move(caller));
  interpreter.set_line(line);
  return interpreter.call(function, values);
}

Value FilterUse::apply_to(Interpreter& interpreter, const Value& value) const {
  if (filter == nullptr) throw TemplateFailure("No filter named '" + name + "'.", line);
  Arguments values = arguments.evaluate(interpreter);
  interpreter.step();
  interpreter.set_line(line);
  return filter(interpreter, value, values);
}

Value TestUse::evaluate(Interpreter& interpreter) const {
  if (test == nullptr) throw TemplateFailure("No test named '" + name + "'.", line);
  Value value = subject->evaluate(interpreter);
  if (arguments.empty()) {
    static const Arguments kNone;
    return Value::boolean(test(interpreter, value, kNone));
  }
  Arguments values = arguments.evaluate(interpreter);
  interpreter.set_line(line);
  return Value::boolean(test(interpreter, value, values));
}

Value Binary::evaluate(Interpreter& interpreter) const {
  interpreter.check_stack();
  Value a = left->evaluate(interpreter);
  Value b = right->evaluate(interpreter);
  interpreter.step();
  interpreter.set_line(line);
  return apply(interpreter, op, a, b);
}

Value Comparison::evaluate(Interpreter& interpreter) const {
  Value a = first->evaluate(interpreter);
  for (const auto& [op, expression] : rest) {
    Value b = expression->evaluate(interpreter);
    interpreter.set_line(line);
    if (!compare(interpreter, op, a, b)) return Value::boolean(false);
    a = std::move(b);
  }
  return Value::boolean(true);
}

Value Concatenation::evaluate(Interpreter& interpreter) const {
  std::string text;
  for (const auto& part : parts) {
    Value value = part->evaluate(interpreter);
    if (value.is(Kind::string)) {
      interpreter.check_size(text.size() + value.text().size());
      text += value.text();
    } else {
      text += interpreter.to_text(value);
    }
  }
  return interpreter.string(std::move(text));
}

Value Logical::evaluate(Interpreter& interpreter) const {
  Value value = left->evaluate(interpreter);
  return truthy(value) == is_and ? right->evaluate(interpreter) : value;
}

Value Unary::evaluate(Interpreter& interpreter) const {
  Value value = operand->evaluate(interpreter);
  interpreter.set_line(line);
  switch (op) {
    case Operator::negate:
      return negate(value);
    case Operator::positive:
      return positive(value);
    case Operator::logical_not:
      return Value::boolean(!truthy(value));
  }
  return value;
}

Value Conditional::evaluate(Interpreter& interpreter) const {
  if (truthy(condition->evaluate(interpreter))) return then->evaluate(interpreter);
  if (otherwise) return otherwise->evaluate(interpreter);
  return make_undefined(
      UndefinedObject::Reason::message,
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", line));
}

}  // namespace hone::text::jinja
