#include "hone/text/jinja/attributes.h"
#include "hone/text/jinja/builtins/natives.h"

namespace hone::text::jinja {

namespace {

Value list_count(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound bound("count", arguments, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.as_list().items) count += equal(item, bound[0]) ? 1 : 0;
  return Value::integer(count);
}

Value list_index(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound bound("index", arguments, {"value", "start", "stop"}, 1);
  const auto& items = self.as_list().items;
  auto size = static_cast<int64_t>(items.size());
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  int64_t stop = clamp(bound.integer(2, size));
  for (int64_t i = clamp(bound.integer(1, 0)); i < stop; ++i)
    if (equal(items[static_cast<size_t>(i)], bound[0])) return Value::integer(i);
  throw TemplateFailure(interpreter.to_text(bound[0]) + " is not in list");
}

Value list_copy(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound("copy", arguments, {});
  return self;
}

Value dict_get(Interpreter&, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) throw TemplateFailure("dict.get() takes no keyword arguments");
  Bound bound("get", arguments, {"key", "default"}, 1);
  if (!is_hashable(bound[0])) throw TemplateFailure("unhashable type: '" + type_name(bound[0]) + "'");
  const Value* value = self.as_dict().find(bound[0]);
  return value != nullptr ? *value : bound.get(1, Value::none());
}

Value dict_items(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound("items", arguments, {});
  std::vector<Value> pairs;
  pairs.reserve(self.as_dict().items.size());
  for (const auto& [key, value] : self.as_dict().items) pairs.push_back(make_list({key, value}, Sequence::tuple));
  return interpreter.list(std::move(pairs), Sequence::items);
}

Value dict_keys(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound("keys", arguments, {});
  std::vector<Value> keys;
  for (const auto& entry : self.as_dict().items) keys.push_back(entry.first);
  return interpreter.list(std::move(keys), Sequence::keys);
}

Value dict_values(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  Bound("values", arguments, {});
  std::vector<Value> values;
  for (const auto& entry : self.as_dict().items) values.push_back(entry.second);
  return interpreter.list(std::move(values), Sequence::values);
}

}  // namespace

Method find_list_method(std::string_view name) {
  if (name == "count") return list_count;
  if (name == "index") return list_index;
  if (name == "copy") return list_copy;
  return nullptr;
}

Method find_dict_method(std::string_view name) {
  if (name == "get") return dict_get;
  if (name == "items") return dict_items;
  if (name == "keys") return dict_keys;
  if (name == "values") return dict_values;
  if (name == "copy") return list_copy;  // immutable, so a copy is the dict itself
  return nullptr;
}

}  // namespace hone::text::jinja
