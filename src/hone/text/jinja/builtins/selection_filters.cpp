// Filters that apply another filter, a test or an attribute to each item, lazily: map, select, reject, selectattr, rejectattr.
#include "hone/text/jinja/attribute_path.h"
#include "hone/text/jinja/builtins/filters.h"
#include "hone/text/jinja/builtins/natives.h"

namespace hone::text::jinja {

namespace {

using Transform = std::function<Value(Interpreter&, const Value&)>;
using Predicate = std::function<bool(Interpreter&, const Value&)>;

Transform prepare_map(Arguments arguments) {
  if (arguments.positional.empty()) {
    Value attribute, fallback = Value::none();
    for (auto& [name, value] : arguments.named) {
      if (name == "attribute") {
        attribute = value;
      } else if (name == "default") {
        fallback = value;
      } else if (!attribute.is(Kind::missing)) {
        throw TemplateFailure("Unexpected keyword argument '" + name + "'");
      }
    }
    if (attribute.is(Kind::missing)) throw TemplateFailure("map requires a filter argument");
    AttributePath path(attribute, fallback);
    return [path](Interpreter& interpreter, const Value& item) { return path.follow(interpreter, item); };
  }
  const std::string name = require_text(arguments.positional.front(), "map");
  Filter filter = find_filter(name);
  if (filter == nullptr) throw TemplateFailure("No filter named '" + name + "'.");
  arguments.positional.erase(arguments.positional.begin());
  return [filter, arguments](Interpreter& interpreter, const Value& item) { return filter(interpreter, item, arguments); };
}

Predicate prepare_test(Arguments arguments, bool by_attribute) {
  AttributePath path;
  if (by_attribute) {
    if (arguments.positional.empty()) throw TemplateFailure("Missing parameter for attribute name");
    path = AttributePath(arguments.positional.front(), Value::none());
    arguments.positional.erase(arguments.positional.begin());
  }
  if (arguments.positional.empty())
    return [path](Interpreter& interpreter, const Value& item) { return truthy(path.follow(interpreter, item)); };
  const std::string name = require_text(arguments.positional.front(), "select");
  Test test = find_test(name);
  if (test == nullptr) throw TemplateFailure("No test named '" + name + "'.");
  arguments.positional.erase(arguments.positional.begin());
  return [path, test, arguments](Interpreter& interpreter, const Value& item) {
    return test(interpreter, path.follow(interpreter, item), arguments);
  };
}

// Everything, including errors, is deferred to the first access: jinja2's filters are generators.
Value map(Interpreter&, const Value& subject, const Arguments& arguments) {
  std::shared_ptr<Iteration> iteration;
  Transform transform;
  return make_generator(subject, [=](Interpreter& interpreter, Value& result) mutable {
    if (!iteration) {
      if (!truthy(subject)) return false;
      transform = prepare_map(arguments);
      iteration = std::make_shared<Iteration>(interpreter, subject);
    }
    interpreter.check_stack();
    Value item;
    if (!iteration->next(item)) return false;
    result = transform(interpreter, item);
    return true;
  });
}

template <bool keep, bool by_attribute>
Value filter_items(Interpreter&, const Value& subject, const Arguments& arguments) {
  std::shared_ptr<Iteration> iteration;
  Predicate predicate;
  return make_generator(subject, [=](Interpreter& interpreter, Value& result) mutable {
    if (!iteration) {
      if (!truthy(subject)) return false;
      predicate = prepare_test(arguments, by_attribute);
      iteration = std::make_shared<Iteration>(interpreter, subject);
    }
    interpreter.check_stack();
    while (iteration->next(result))
      if (predicate(interpreter, result) == keep) return true;
    return false;
  });
}

constexpr FilterEntry kSelectionFilters[] = {
    {"map", map},
    {"select", filter_items<true, false>},
    {"reject", filter_items<false, false>},
    {"selectattr", filter_items<true, true>},
    {"rejectattr", filter_items<false, true>},
};

}  // namespace

Filter find_selection_filter(std::string_view name) {
  for (const FilterEntry& entry : kSelectionFilters)
    if (entry.name == name) return entry.filter;
  return nullptr;
}

}  // namespace hone::text::jinja
