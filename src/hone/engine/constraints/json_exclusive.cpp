#include "hone/engine/constraints/json_exclusive.h"

#include <algorithm>
#include <set>
#include <string>

#include "hone/engine/constraints/json_parts.h"

namespace hone::engine {
namespace {

constexpr int kMostLevels = 4;  // of properties and alternatives looked into

Json list_of(const Json& schema, const char* name) {
  auto found = schema.find(name);
  if (found == schema.end()) return Json::array();
  return found->is_array() ? *found : Json::array({*found});
}

// All that a schema accepts, where it says so by "const" or "enum".
std::optional<Json> values_of(const Json& schema) {
  if (schema.contains("const")) return Json::array({schema["const"]});
  if (schema.contains("enum")) return schema["enum"];
  return std::nullopt;
}

bool types_meet(const Json& one, const Json& other) {
  auto kind = [](const Json& type) { return type == "integer" ? Json("number") : type; };
  return std::ranges::any_of(one, [&](const Json& a) { return std::ranges::any_of(other, [&](const Json& b) { return kind(a) == kind(b); }); });
}

Json types_of(const Json& values) {
  Json types = Json::array();
  for (const auto& value : values) types.push_back(value.type_name());
  return types;
}

// No value at all is accepted by both, by their types or values.
bool have_nothing_in_common(const Json& one, const Json& other) {
  if (one == false || other == false) return true;
  if (!one.is_object() || !other.is_object()) return false;
  auto values = values_of(one), others = values_of(other);
  if (values && others)
    return std::ranges::none_of(*values, [&](const Json& value) { return std::ranges::find(*others, value) != others->end(); });
  auto types = values ? types_of(*values) : list_of(one, "type"), other_types = others ? types_of(*others) : list_of(other, "type");
  return !types.empty() && !other_types.empty() && !types_meet(types, other_types);
}

struct ObjectSchema {
  Json properties;
  std::set<std::string> required;
  bool closed;
  bool writes_objects;  // and only such whose names it lists

  explicit ObjectSchema(const Json& schema)
      : properties(schema.value("properties", Json::object())), closed(schema.contains("additionalProperties") && schema["additionalProperties"] == false) {
    for (const auto& name : schema.value("required", Json::array())) required.insert(name.get<std::string>());
    auto types = list_of(schema, "type");
    bool may = types.empty() || (types.size() == 1 && types[0] == "object");
    writes_objects = may && !values_of(schema) && (!properties.empty() || !required.empty());
  }
  bool lists(const std::string& name) const { return properties.contains(name) || required.contains(name); }
};

// The texts written for `one` are refused by `other` for a property that is missing, forbidden or of another kind.
bool writes_outside(const ObjectSchema& one, const ObjectSchema& other, const SchemaView& view) {
  if (!one.writes_objects) return false;
  auto differ = [&](const std::string& name) {
    return one.properties.contains(name) && other.properties.contains(name) &&
           have_nothing_in_common(view(one.properties[name]), view(other.properties[name]));
  };
  return std::ranges::any_of(one.required, [&](const auto& name) { return differ(name) || (other.closed && !other.properties.contains(name)); }) ||
         std::ranges::any_of(other.required, [&](const auto& name) { return differ(name) || !one.lists(name); });
}

bool shut_out(const Json& first, const Json& second, const SchemaView& view, int level) {
  if (level > kMostLevels) return false;
  const Json one = view(first), other = view(second);
  if (have_nothing_in_common(one, other)) return true;
  if (!one.is_object() || !other.is_object()) return false;
  for (const char* name : {"anyOf", "oneOf"}) {
    if (one.contains(name)) return std::ranges::all_of(one[name], [&](const Json& part) { return shut_out(part, other, view, level + 1); });
    if (other.contains(name)) return std::ranges::all_of(other[name], [&](const Json& part) { return shut_out(one, part, view, level + 1); });
  }
  ObjectSchema a(one), b(other);
  return writes_outside(a, b, view) && writes_outside(b, a, view);
}

}  // namespace

bool shut_each_other_out(const Json& one, const Json& other, const SchemaView& view) { return shut_out(one, other, view, 0); }

}  // namespace hone::engine
