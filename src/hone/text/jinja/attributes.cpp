#include "hone/text/jinja/attributes.h"

#include <algorithm>

#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/builtins/text_operations.h"
#include "hone/text/jinja/repr.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

using Reason = UndefinedObject::Reason;

class BoundMethod final : public NativeObject {
 public:
  BoundMethod(Value self, Method method) : self_(std::move(self)), method_(method) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments& arguments) override {
    return like_origin(self_, method_(interpreter, self_, arguments));
  }

 private:
  Value self_;
  Method method_;
};

// A Python attribute of `object`, or missing.
Value python_attribute(Interpreter& interpreter, const Value& object, std::string_view name) {
  if (Method method = find_method(object, name)) return Value::object(Kind::native, new BoundMethod(object, method));
  if (is_mutating_method(object, name)) return make_undefined(Reason::unsafe, std::string(name), type_name(object));
  if (object.is(Kind::native)) return object.as_native().attribute(interpreter, name);
  if (object.is(Kind::list)) {
    const auto& fields = object.as_list().field_names;
    auto it = std::find(fields.begin(), fields.end(), name);
    if (it != fields.end()) return object.as_list().items[static_cast<size_t>(it - fields.begin())];
  }
  if (object.is_number()) {
    if (name == "real") return object.is(Kind::boolean) ? Value::integer(object.as_integer()) : object;
    if (name == "imag") return object.is(Kind::real) ? Value::real(0) : Value::integer(0);
    if (name == "numerator" && object.is_integral()) return Value::integer(object.as_integer());
    if (name == "denominator" && object.is_integral()) return Value::integer(1);
  }
  return Value();
}

bool is_python_internal(std::string_view name) {
  static constexpr std::string_view kInternal[] = {"__class__",    "__doc__",    "__init__",        "__dict__", "__module__",
                                                   "__len__",      "__iter__",   "__eq__",          "__str__",  "__repr__",
                                                   "__getitem__",  "__hash__",   "__new__",         "__dir__",  "__sizeof__",
                                                   "__contains__", "__reduce__", "__getattribute__"};
  return std::find(std::begin(kInternal), std::end(kInternal), name) != std::end(kInternal);
}

Value list_item(const ListObject& list, int64_t index) {
  auto size = static_cast<int64_t>(list.items.size());
  if (index < 0) index += size;
  return index >= 0 && index < size ? list.items[static_cast<size_t>(index)] : Value();
}

Value string_item(Interpreter& interpreter, const StringObject& string, int64_t index) {
  int64_t size = string.length();
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value();
  if (string.is_ascii()) return Value::string(std::string(1, string.text[static_cast<size_t>(index)]));
  interpreter.step(1 + static_cast<size_t>(index) / 64);
  size_t begin = byte_offset(string.text, index), end = begin;
  next_code_point(string.text, end);
  return Value::string(string.text.substr(begin, end - begin));
}

// object[key], or missing if Python raises TypeError or LookupError.
Value python_item(Interpreter& interpreter, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::dict: {
      if (!is_hashable(key)) return Value();
      const Value* value = object.as_dict().find(key);
      return value == nullptr ? Value() : *value;
    }
    case Kind::list: {
      bool indexable = object.as_list().flavor <= Sequence::range;
      return indexable && key.is_integral() ? list_item(object.as_list(), key.as_integer()) : Value();
    }
    case Kind::string:
      return key.is_integral() ? string_item(interpreter, object.as_string(), key.as_integer()) : Value();
    case Kind::native:
      return object.as_native().item(interpreter, key);
    default:
      return Value();
  }
}

struct SliceRange {
  int64_t start, stop, step, count;
};

SliceRange resolve_slice(int64_t length, const Value& start, const Value& stop, const Value& step) {
  int64_t stride = step.is(Kind::none) ? 1 : require_integer(step);
  if (stride == 0) throw TemplateFailure("slice step cannot be zero");
  auto bound = [&](const Value& value, int64_t fallback) {
    if (value.is(Kind::none)) return fallback;
    int64_t index = require_integer(value);
    if (index < 0) index = index < -length ? (stride < 0 ? -1 : 0) : index + length;
    return std::min(index, stride < 0 ? length - 1 : length);
  };
  int64_t from = bound(start, stride < 0 ? length - 1 : 0);
  int64_t to = bound(stop, stride < 0 ? -1 : length);
  __int128 wide_stride = stride;
  __int128 count = stride > 0 ? (static_cast<__int128>(to) - from + wide_stride - 1) / wide_stride
                              : (static_cast<__int128>(from) - to - wide_stride - 1) / -wide_stride;
  bool empty = stride > 0 ? from >= to : from <= to;
  return {from, to, stride, empty ? 0 : static_cast<int64_t>(count)};
}

Value slice_string(Interpreter& interpreter, const StringObject& string, const SliceRange& range) {
  if (string.is_ascii()) {
    if (range.step == 1)
      return interpreter.string(string.text.substr(static_cast<size_t>(range.start), static_cast<size_t>(range.count)));
    std::string out;
    for (int64_t i = 0; i < range.count; ++i) out += string.text[static_cast<size_t>(range.start + i * range.step)];
    return interpreter.string(std::move(out));
  }
  interpreter.charge_bytes(string.text.size());
  if (range.step == 1) {
    size_t begin = byte_offset(string.text, range.start);
    size_t size = byte_offset(std::string_view(string.text).substr(begin), range.count);
    return interpreter.string(string.text.substr(begin, size));
  }
  std::u32string points = decode(string.text), picked;
  for (int64_t i = 0; i < range.count; ++i) picked += points[static_cast<size_t>(range.start + i * range.step)];
  return interpreter.string(encode(picked));
}

}  // namespace

Method find_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::string:
      return find_string_method(name);
    case Kind::dict:
      return find_dict_method(name);
    case Kind::list: {
      if (object.as_list().flavor > Sequence::range) return nullptr;
      if (name == "copy" && object.as_list().flavor != Sequence::list) return nullptr;
      return find_list_method(name);
    }
    default:
      return nullptr;
  }
}

bool is_mutating_method(const Value& object, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (object.is(Kind::list) && object.as_list().flavor == Sequence::list)
    return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
  return object.is(Kind::dict) && std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
}

Value Interpreter::get_attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::undefined)) throw TemplateFailure(object.as_undefined().explain());
  if (name.starts_with("__") && is_python_internal(name))
    return make_undefined(Reason::unsafe, std::string(name), type_name(object));
  Value found = python_attribute(*this, object, name);
  if (!found.is(Kind::missing)) return found;
  if (object.is(Kind::dict)) {
    if (const Value* value = object.as_dict().find(name)) return *value;
  } else if (object.is(Kind::native)) {
    found = object.as_native().item(*this, Value::string(std::string(name)));
    if (!found.is(Kind::missing)) return found;
  }
  return make_undefined(Reason::attribute, std::string(name), type_name(object));
}

Value Interpreter::get_item(const Value& object, const Value& key) {
  if (object.is(Kind::undefined)) throw TemplateFailure(object.as_undefined().explain());
  Value found = python_item(*this, object, key);
  if (!found.is(Kind::missing)) return found;
  if (!key.is(Kind::string)) return make_undefined(Reason::item, repr(*this, key), type_name(object));
  if (is_python_internal(key.text())) return make_undefined(Reason::unsafe, key.text(), type_name(object));
  found = python_attribute(*this, object, key.text());
  if (!found.is(Kind::missing)) return found;
  return make_undefined(Reason::attribute, key.text(), type_name(object));
}

Value Interpreter::slice(const Value& object, const Value& start, const Value& stop, const Value& step_value) {
  if (object.is(Kind::undefined)) throw TemplateFailure(object.as_undefined().explain());
  bool sliceable = object.is(Kind::string) || (object.is(Kind::list) && object.as_list().flavor <= Sequence::range);
  if (!sliceable) throw TemplateFailure("'" + type_name(object) + "' object is not subscriptable");
  SliceRange range = resolve_slice(length(object), start, stop, step_value);
  if (object.is(Kind::string)) return like_origin(object, slice_string(*this, object.as_string(), range));
  const ListObject& source = object.as_list();
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(range.count));
  for (int64_t i = 0; i < range.count; ++i) items.push_back(source.items[static_cast<size_t>(range.start + i * range.step)]);
  Value result = list(std::move(items), source.flavor);
  if (source.flavor == Sequence::range) {
    auto& made = const_cast<ListObject&>(result.as_list());
    made.start = source.start + range.start * source.step;
    made.step = source.step * range.step;
    made.stop = source.start + range.stop * source.step;
  }
  return result;
}

}  // namespace hone::text::jinja
