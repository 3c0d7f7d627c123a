// Filters over sequences and mappings.
#include <algorithm>

#include "hone/text/jinja/attribute_path.h"
#include "hone/text/jinja/attributes.h"
#include "hone/text/jinja/builtins/filters.h"
#include "hone/text/jinja/builtins/natives.h"
#include "hone/text/jinja/operators.h"
#include "hone/text/jinja/unicode.h"

namespace hone::text::jinja {

namespace {

Value no_item(const char* message) { return make_undefined(UndefinedObject::Reason::message, message); }

// A generator over items that are available.
Value generate(std::vector<Value> items) {
  return make_generator(Value::none(), [items = std::move(items), at = size_t{0}](Interpreter&, Value& item) mutable {
    if (at >= items.size()) return false;
    item = items[at++];
    return true;
  });
}

Value length(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("length", arguments, {});
  return Value::integer(interpreter.length(subject));
}

Value first(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("first", arguments, {});
  Value item;
  return Iteration(interpreter, subject).next(item) ? item : no_item("No first item, sequence was empty.");
}

Value last(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("last", arguments, {});
  if (subject.is(Kind::native)) throw TemplateFailure("'" + type_name(subject) + "' object is not reversible");
  std::vector<Value> items = interpreter.to_vector(subject);
  return items.empty() ? no_item("No last item, sequence was empty.") : items.back();
}

Value to_list(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("list", arguments, {});
  return interpreter.list(interpreter.to_vector(subject));
}

Value items(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("items", arguments, {});
  if (subject.is(Kind::undefined)) return generate({});
  if (!subject.is(Kind::dict)) throw TemplateFailure("Can only get item pairs from a mapping.");
  return generate(find_dict_method("items")(interpreter, subject, {}).as_list().items);
}

Value reverse(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound("reverse", arguments, {});
  if (subject.is(Kind::string)) {
    std::u32string points = decode(subject.text());
    return interpreter.string(encode(std::u32string(points.rbegin(), points.rend())));
  }
  std::vector<Value> values = interpreter.to_vector(subject);
  std::reverse(values.begin(), values.end());
  if (subject.is(Kind::native) || subject.is(Kind::undefined)) return interpreter.list(std::move(values));
  return generate(std::move(values));
}

// Stable sort by key. If a comparison throws, the order of the items is unspecified, which is not observable.
std::vector<Value> sorted_by(Interpreter& interpreter, const std::vector<Value>& values, bool reversed,
                             const std::function<Value(const Value&)>& key) {
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(values.size());
  for (const Value& value : values) keyed.emplace_back(key(value), value);
  interpreter.step(values.size() * 4);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reversed ? less_than(b.first, a.first) : less_than(a.first, b.first);
  });
  std::vector<Value> sorted;
  sorted.reserve(keyed.size());
  for (auto& entry : keyed) sorted.push_back(std::move(entry.second));
  return sorted;
}

Value sort(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributePath> paths;
  Value attribute = bound.get(2, Value::none());
  if (attribute.is(Kind::string)) {
    std::string_view rest = attribute.text();
    for (size_t comma; (comma = rest.find(',')) != std::string_view::npos; rest.remove_prefix(comma + 1)) {
      paths.emplace_back(Value::string(std::string(rest.substr(0, comma))));
    }
    paths.emplace_back(Value::string(std::string(rest)));
  } else {
    paths.emplace_back(attribute);
  }
  bool keeps_case = bound.flag(1);
  auto key = [&](const Value& value) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      Value part = path.follow(interpreter, value);
      parts.push_back(keeps_case ? std::move(part) : without_case(part));
    }
    return make_list(std::move(parts));
  };
  return interpreter.list(sorted_by(interpreter, interpreter.to_vector(subject), bound.flag(0), key));
}

Value dictsort(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  std::string by = bound.has(1) ? bound.text(1) : "key";
  if (by != "key" && by != "value") throw TemplateFailure("You can only sort by either \"key\" or \"value\"");
  if (subject.is(Kind::undefined)) throw TemplateFailure(subject.as_undefined().explain());
  if (!subject.is(Kind::dict)) throw TemplateFailure("'" + type_name(subject) + "' object has no attribute 'items'");
  bool keeps_case = bound.flag(0);
  auto key = [&](const Value& pair) {
    const Value& part = pair.as_list().items[by == "key" ? 0 : 1];
    return keeps_case ? part : without_case(part);
  };
  Value pairs = find_dict_method("items")(interpreter, subject, {});
  return interpreter.list(sorted_by(interpreter, pairs.as_list().items, bound.flag(2), key));
}

Value unique(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  AttributePath path(bound.get(1, Value::none()));
  bool keeps_case = bound.flag(0);
  DictObject seen;
  std::vector<Value> kept;
  for (Value& value : interpreter.to_vector(subject)) {
    Value key = path.follow(interpreter, value);
    if (!keeps_case) key = without_case(key);
    hash_of(key);  // rejects what a Python set rejects
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), Value::none());
    kept.push_back(std::move(value));
  }
  return generate(std::move(kept));
}

template <bool largest>
Value extreme(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("min", arguments, {"case_sensitive", "attribute"});
  AttributePath path(bound.get(1, Value::none()));
  bool keeps_case = bound.flag(0);
  Value best, best_key, item;
  for (Iteration iteration(interpreter, subject); iteration.next(item);) {
    Value key = path.follow(interpreter, item);
    if (!keeps_case) key = without_case(key);
    if (best.is(Kind::missing) || (largest ? less_than(best_key, key) : less_than(key, best_key))) {
      best = item;
      best_key = key;
    }
  }
  return best.is(Kind::missing) ? no_item("No aggregated item, sequence was empty.") : best;
}

Value sum(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("sum", arguments, {"attribute", "start"});
  AttributePath path(bound.get(0, Value::none()));
  Value total = bound.get(1, Value::integer(0)), item;
  if (total.is(Kind::string)) throw TemplateFailure("sum() can't sum strings [use ''.join(seq) instead]");
  for (Iteration iteration(interpreter, subject); iteration.next(item);) {
    total = apply(interpreter, BinaryOperator::add, total, path.follow(interpreter, item));
  }
  return total;
}

Value groupby(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  AttributePath path(bound[0], bound.get(1, Value::none()));
  bool keeps_case = bound.flag(2);
  auto key = [&](const Value& value) {
    Value found = path.follow(interpreter, value);
    return keeps_case ? found : without_case(found);
  };
  std::vector<Value> groups, members;
  Value group_key;
  auto close_group = [&] {
    if (members.empty()) return;
    Value shown = path.follow(interpreter, members.front());
    Value tuple = make_list({std::move(shown), interpreter.list(std::move(members))}, Sequence::tuple);
    const_cast<ListObject&>(tuple.as_list()).field_names = {"grouper", "list"};
    groups.push_back(std::move(tuple));
    members.clear();
  };
  for (Value& value : sorted_by(interpreter, interpreter.to_vector(subject), false, key)) {
    Value now = key(value);
    if (!members.empty() && !equal(now, group_key)) close_group();
    group_key = std::move(now);
    members.push_back(std::move(value));
  }
  close_group();
  return interpreter.list(std::move(groups));
}

Value batch(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  int64_t size = require_integer(bound[0]);
  std::vector<Value> rows, row;
  for (Value& value : interpreter.to_vector(subject)) {
    if (static_cast<int64_t>(row.size()) == size) rows.push_back(interpreter.list(std::exchange(row, {})));
    row.push_back(std::move(value));
  }
  if (!row.empty()) {
    if (bound.given(1) && static_cast<int64_t>(row.size()) < size) {
      interpreter.step(static_cast<size_t>(size));
      row.resize(static_cast<size_t>(size), bound[1]);
    }
    rows.push_back(interpreter.list(std::move(row)));
  }
  return generate(std::move(rows));
}

Value slice(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  std::vector<Value> values = interpreter.to_vector(subject);
  int64_t count = require_integer(bound[0]);
  if (count == 0) throw TemplateFailure("integer division or modulo by zero");
  auto size = static_cast<int64_t>(values.size());
  std::vector<Value> slices;
  for (int64_t i = 0, at = 0; i < count; ++i) {
    int64_t length = size / count + (i < size % count ? 1 : 0);
    std::vector<Value> part(values.begin() + at, values.begin() + at + length);
    at += length;
    if (bound.given(1) && i >= size % count) part.push_back(bound[1]);
    slices.push_back(interpreter.list(std::move(part)));
  }
  return generate(std::move(slices));
}

Value fallback(Interpreter&, const Value& subject, const Arguments& arguments) {
  Bound bound("default", arguments, {"default_value", "boolean"});
  bool replace = subject.is(Kind::undefined) || (bound.flag(1) && !truthy(subject));
  return replace ? bound.get(0, Value::string("")) : subject;
}

Value attr(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  Bound bound("attr", arguments, {"name"}, 1);
  const std::string& name = bound.text(0);
  Value found = subject.is(Kind::dict) && find_method(subject, name) == nullptr && !is_mutating_method(subject, name)
                    ? Value()
                    : interpreter.get_attribute(subject, name);
  return found.is(Kind::missing) ? make_undefined(UndefinedObject::Reason::attribute, name, type_name(subject)) : found;
}

constexpr FilterEntry kSequenceFilters[] = {
    {"length", length},   {"count", length},  {"default", fallback},   {"d", fallback},        {"items", items},
    {"list", to_list},    {"first", first},   {"last", last},          {"dictsort", dictsort}, {"sort", sort},
    {"reverse", reverse}, {"unique", unique}, {"min", extreme<false>}, {"max", extreme<true>}, {"sum", sum},
    {"groupby", groupby}, {"batch", batch},   {"slice", slice},        {"attr", attr},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  for (const FilterEntry& entry : kSequenceFilters)
    if (entry.name == name) return entry.filter;
  return nullptr;
}

}  // namespace hone::text::jinja
