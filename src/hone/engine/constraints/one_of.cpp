#include "hone/engine/constraints/one_of.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "hone/engine/constraints/json_rules.h"
#include "hone/engine/constraints/schema_resolver.h"

namespace hone::engine {
namespace {

constexpr int kMostLevels = 4;         // limit of properties and alternatives examined
constexpr size_t kMostCompared = 100;  // limit of pairwise comparisons

Json list_of(const Json& schema, const char* name) {
  auto found = schema.find(name);
  if (found == schema.end()) return Json::array();
  return found->is_array() ? *found : Json::array({*found});
}

// All values that a schema accepts, if it lists them by "const" or "enum".
std::optional<Json> values_of(const Json& schema) {
  if (!schema.is_object()) return std::nullopt;
  if (schema.contains("const")) return Json::array({schema["const"]});
  if (schema.contains("enum")) return schema["enum"];
  return std::nullopt;
}

bool types_meet(const Json& one, const Json& other) {
  auto kind = [](const Json& type) { return type == "integer" ? Json("number") : type; };
  return std::ranges::any_of(
      one, [&](const Json& a) { return std::ranges::any_of(other, [&](const Json& b) { return kind(a) == kind(b); }); });
}

Json types_of(const Json& values) {
  Json types = Json::array();
  for (const auto& value : values) types.push_back(value.type_name());
  return types;
}

// The two are disjoint by their types or values.
bool have_nothing_in_common(const Json& one, const Json& other) {
  if (one == false || other == false) return true;
  if (!one.is_object() || !other.is_object()) return false;
  auto values = values_of(one), others = values_of(other);
  if (values && others) {
    std::set<std::string> known;
    for (const auto& value : *values) known.insert(canonical(value));
    return std::ranges::none_of(*others, [&](const Json& value) { return known.contains(canonical(value)); });
  }
  auto types = values ? types_of(*values) : list_of(one, "type"),
       other_types = others ? types_of(*others) : list_of(other, "type");
  return !types.empty() && !other_types.empty() && !types_meet(types, other_types);
}

struct ObjectSchema {
  Json properties;
  std::set<std::string> required;
  bool closed;
  bool writes_objects;  // and only properties that it lists

  explicit ObjectSchema(const Json& schema)
      : properties(schema.value("properties", Json::object())),
        closed(schema.contains("additionalProperties") && schema["additionalProperties"] == false) {
    for (const auto& name : schema.value("required", Json::array())) required.insert(name.get<std::string>());
    auto types = list_of(schema, "type");
    bool may = types.empty() || (types.size() == 1 && types[0] == "object");
    writes_objects = may && !values_of(schema) && (!properties.empty() || !required.empty());
  }
  bool lists(const std::string& name) const { return properties.contains(name) || required.contains(name); }
};

// Every text of `one` is rejected by `other` because of a property that is missing, forbidden or of another type.
bool writes_outside(const ObjectSchema& one, const ObjectSchema& other, SchemaResolver& view) {
  if (!one.writes_objects) return false;
  auto differ = [&](const std::string& name) {
    return one.properties.contains(name) && other.properties.contains(name) &&
           have_nothing_in_common(view.flattened(one.properties[name]), view.flattened(other.properties[name]));
  };
  return std::ranges::any_of(
             one.required,
             [&](const auto& name) { return differ(name) || (other.closed && !other.properties.contains(name)); }) ||
         std::ranges::any_of(other.required, [&](const auto& name) { return differ(name) || !one.lists(name); });
}

bool shut_out(const Json& first, const Json& second, SchemaResolver& view, int level) {
  if (level > kMostLevels) return false;
  const Json one = view.flattened(first), other = view.flattened(second);
  if (have_nothing_in_common(one, other)) return true;
  if (!one.is_object() || !other.is_object()) return false;
  for (const char* name : {"anyOf", "oneOf"}) {
    if (one.contains(name))
      return std::ranges::all_of(one[name], [&](const Json& part) { return shut_out(part, other, view, level + 1); });
    if (other.contains(name))
      return std::ranges::all_of(other[name], [&](const Json& part) { return shut_out(one, part, view, level + 1); });
  }
  ObjectSchema a(one), b(other);
  return writes_outside(a, b, view) && writes_outside(b, a, view);
}

// A property required by every schema has distinct values: a tagged union.
bool told_apart_by(const std::string& tag, const std::vector<ObjectSchema>& schemas, SchemaResolver& view) {
  std::set<std::string> known;
  return std::ranges::all_of(schemas, [&](const ObjectSchema& schema) {
    if (!schema.writes_objects || !schema.required.contains(tag) || !schema.properties.contains(tag)) return false;
    auto values = values_of(view.flattened(schema.properties[tag]));
    return values && std::ranges::all_of(*values, [&](const Json& value) { return known.insert(canonical(value)).second; });
  });
}

bool are_tagged(const std::vector<Json>& alternatives, SchemaResolver& view) {
  if (!std::ranges::all_of(alternatives, &Json::is_object)) return false;
  std::vector<ObjectSchema> schemas(alternatives.begin(), alternatives.end());
  return !schemas.empty() &&
         std::ranges::any_of(schemas[0].required, [&](const auto& tag) { return told_apart_by(tag, schemas, view); });
}

[[noreturn]] void refuse_pair(size_t one, size_t other) {
  throw UnsupportedSchema{
      fmt::format("alternatives {} and {} of \"oneOf\" may both accept an answer; use \"anyOf\", or give them different "
                  "types or a required property with different values of \"const\"",
                  std::min(one, other) + 1, std::max(one, other) + 1)};
}

}  // namespace

void require_disjoint(const Json& alternatives, SchemaResolver& view, SchemaValidator& validator) {
  std::vector<Json> open;  // schemas that list no values
  std::vector<size_t> indices;
  std::map<std::string, std::pair<size_t, Json>> listed;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    auto whole = view.flattened(alternatives[i]);
    auto values = values_of(whole);
    if (!values) {
      open.push_back(std::move(whole));
      indices.push_back(i);
      continue;
    }
    for (const auto& value : *values) {
      if (!validator.accepts(whole, value)) continue;
      auto [known, added] = listed.try_emplace(canonical(value), i, value);
      if (!added && known->second.first != i) refuse_pair(known->second.first, i);
    }
  }
  for (size_t i = 0; i < open.size(); ++i)
    for (const auto& [text, value] : listed)
      if (validator.accepts(open[i], value.second)) refuse_pair(indices[i], value.first);
  if (are_tagged(open, view)) return;
  if (open.size() > kMostCompared)
    throw UnsupportedSchema{fmt::format("\"oneOf\" has {} alternatives that no tag tells apart; at most {} are compared",
                                        open.size(), kMostCompared)};
  for (size_t i = 0; i < open.size(); ++i)
    for (size_t j = i + 1; j < open.size(); ++j)
      if (!shut_out(open[i], open[j], view, 0)) refuse_pair(indices[i], indices[j]);
}

}  // namespace hone::engine
