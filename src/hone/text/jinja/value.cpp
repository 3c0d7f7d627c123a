#include "hone/text/jinja/value.h"

#include <bit>
#include <cmath>
#include <functional>

#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

constexpr uint32_t kMaxValueNesting = 300;

uint32_t nesting_of(const Value& value) {
  if (value.is(Kind::list)) return value.as_list().depth;
  if (value.is(Kind::dict)) return value.as_dict().depth;
  return 0;
}

uint32_t nested_in(uint32_t depth, const Value& child) {
  uint32_t needed = nesting_of(child) + 1;
  if (needed > kMaxValueNesting) throw TemplateFailure("containers are nested too deeply");
  return std::max(depth, needed);
}

}  // namespace

Value Value::real(double value) { return Value(Kind::real, std::bit_cast<int64_t>(value)); }

Value Value::object(Kind kind, Object* object) {
  Value value(kind, 0);
  value.object_ = object;
  value.retain();
  return value;
}

Value Value::string(std::string text) { return object(Kind::string, new StringObject(std::move(text))); }

Value Value::markup(std::string text) {
  auto* string = new StringObject(std::move(text));
  string->markup = true;
  return object(Kind::string, string);
}

int64_t StringObject::length() const {
  if (length_ < 0) length_ = count_code_points(text);
  return length_;
}

Value make_list(std::vector<Value> items, Sequence flavor) {
  auto* list = new ListObject;
  Value result = Value::object(Kind::list, list);
  for (const Value& item : items) list->depth = nested_in(list->depth, item);
  list->items = std::move(items);
  list->flavor = flavor;
  return result;
}

Value make_dict(std::vector<std::pair<Value, Value>> items) {
  auto* dict = new DictObject;
  Value result = Value::object(Kind::dict, dict);
  dict->items.reserve(items.size());
  for (auto& [key, value] : items) dict->set(std::move(key), std::move(value));
  return result;
}

Value make_undefined(UndefinedObject::Reason reason, std::string detail, std::string owner) {
  auto* undefined = new UndefinedObject;
  undefined->reason = reason;
  undefined->detail = std::move(detail);
  undefined->owner = std::move(owner);
  return Value::object(Kind::undefined, undefined);
}

std::string UndefinedObject::explain() const {
  switch (reason) {
    case Reason::name:
      return "'" + detail + "' is undefined";
    case Reason::attribute:
      return "'" + owner + "' object has no attribute '" + detail + "'";
    case Reason::item:
      return "'" + owner + "' object has no element " + detail;
    case Reason::unsafe:
      return "access to attribute '" + detail + "' of '" + owner + "' object is unsafe";
    case Reason::message:
      return detail;
  }
  return detail;
}

size_t DictObject::position(const Value& key, size_t hash) const {
  if (items.size() < kIndexFrom) {
    for (size_t i = 0; i < items.size(); ++i)
      if (equal(items[i].first, key)) return i;
    return items.size();
  }
  auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (equal(items[it->second].first, key)) return it->second;
  return items.size();
}

const Value* DictObject::find(const Value& key) const {
  size_t i = position(key, items.size() < kIndexFrom ? 0 : hash_of(key));
  return i < items.size() ? &items[i].second : nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (items.size() >= kIndexFrom) return find(Value::string(std::string(key)));
  for (const auto& [name, value] : items)
    if (name.is(Kind::string) && name.text() == key) return &value;
  return nullptr;
}

void DictObject::set(Value key, Value value) {
  depth = nested_in(nested_in(depth, key), value);
  size_t hash = hash_of(key);
  size_t at = position(key, hash);
  if (at < items.size()) {
    items[at].second = std::move(value);
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
  if (items.size() == kIndexFrom) {
    for (uint32_t i = 0; i < items.size(); ++i) index_.emplace(hash_of(items[i].first), i);
  } else if (items.size() > kIndexFrom) {
    index_.emplace(hash, static_cast<uint32_t>(items.size() - 1));
  }
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::none:
    case Kind::undefined:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
      return !value.as_list().items.empty();
    case Kind::dict:
      return !value.as_dict().items.empty();
    case Kind::native:
      return true;
  }
  return false;
}

namespace {

bool equal_lists(const ListObject& left, const ListObject& right) {
  auto family = [](Sequence flavor) { return flavor == Sequence::items ? Sequence::keys : flavor; };
  if (family(left.flavor) != family(right.flavor) || left.items.size() != right.items.size()) return false;
  if (left.flavor == Sequence::values) return &left == &right;
  charge_comparison(1 + left.items.size());
  for (size_t i = 0; i < left.items.size(); ++i)
    if (!equal(left.items[i], right.items[i])) return false;
  return true;
}

bool equal_dicts(const DictObject& left, const DictObject& right) {
  if (left.items.size() != right.items.size()) return false;
  charge_comparison(1 + left.items.size());
  for (const auto& [key, value] : left.items) {
    const Value* other = right.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

}  // namespace

bool equal(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return left.as_integer() == right.as_integer();
    return left.as_real() == right.as_real();
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::string:
      if (left.text().size() > 1024) charge_comparison(left.text().size() / 64);
      return left.identity() == right.identity() || left.text() == right.text();
    case Kind::list:
      return left.identity() == right.identity() || equal_lists(left.as_list(), right.as_list());
    case Kind::dict:
      return left.identity() == right.identity() || equal_dicts(left.as_dict(), right.as_dict());
    case Kind::native:
      return left.identity() == right.identity();
    default:
      return true;  // none with none, undefined with undefined
  }
}

bool is_hashable(const Value& value) {
  if (value.is(Kind::dict)) return false;
  if (!value.is(Kind::list)) return true;
  Sequence flavor = value.as_list().flavor;
  if (flavor == Sequence::range || flavor == Sequence::values) return true;
  if (flavor != Sequence::tuple) return false;
  charge_comparison(1 + value.as_list().items.size());
  for (const Value& item : value.as_list().items)
    if (!is_hashable(item)) return false;
  return true;
}

size_t hash_of(const Value& value) {
  if (!is_hashable(value)) throw TemplateFailure("unhashable type: '" + type_name(value) + "'");
  switch (value.kind()) {
    case Kind::boolean:
    case Kind::integer:
      return std::hash<double>{}(static_cast<double>(value.as_integer()));
    case Kind::real:
      return std::hash<double>{}(value.as_real());
    case Kind::string:
      return std::hash<std::string>{}(value.text());
    case Kind::list: {
      size_t hash = 17;
      charge_comparison(1 + value.as_list().items.size());
      for (const Value& item : value.as_list().items) hash = hash * 31 + hash_of(item);
      return hash;
    }
    case Kind::native:
      return std::hash<const Object*>{}(value.identity());
    default:
      return static_cast<size_t>(value.kind());
  }
}

bool less_than(const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return left.as_integer() < right.as_integer();
    return left.as_real() < right.as_real();
  }
  if (left.is(Kind::undefined)) throw TemplateFailure(left.as_undefined().explain());
  if (right.is(Kind::undefined)) throw TemplateFailure(right.as_undefined().explain());
  if (left.is(Kind::string) && right.is(Kind::string)) return left.text() < right.text();
  bool sequences = left.is(Kind::list) && right.is(Kind::list) && left.as_list().flavor == right.as_list().flavor &&
                   left.as_list().flavor <= Sequence::tuple;
  if (!sequences) {
    throw TemplateFailure("'<' not supported between instances of '" + type_name(left) + "' and '" + type_name(right) + "'");
  }
  const auto& a = left.as_list().items;
  const auto& b = right.as_list().items;
  charge_comparison(1 + a.size());
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!equal(a[i], b[i])) return less_than(a[i], b[i]);
  return a.size() < b.size();
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::dict:
      return "dict";
    case Kind::native:
      return std::string(value.as_native().type_name());
    case Kind::list:
      break;
  }
  static constexpr const char* kNames[] = {"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<int>(value.as_list().flavor)];
}

}  // namespace hone::text::jinja
