#include "hone/engine/constraints/schema_resolver.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "hone/engine/constraints/json_rules.h"

namespace hone::engine {
namespace {

constexpr int kMostHops = 32;             // depth of references to references, or into nested parts
constexpr size_t kMostSteps = 1'000'000;  // copied values, characters of constants, comparisons
constexpr size_t kBytesInStep = 16;       // cost of one character's pattern

const std::set<std::string, std::less<>> kAnnotations{
    "title",           "description",      "default",      "example",      "examples", "$comment",    "deprecated",
    "readOnly",        "writeOnly",        "$schema",      "$id",          "id",       "$anchor",     "$defs",
    "definitions",     "discriminator",    "nullable",     "externalDocs", "xml",      "$vocabulary", "$dynamicAnchor",
    "contentEncoding", "contentMediaType", "contentSchema"};

const std::set<std::string, std::less<>> kFollowed{"$ref",
                                                   "allOf",
                                                   "anyOf",
                                                   "oneOf",
                                                   "const",
                                                   "enum",
                                                   "type",
                                                   "properties",
                                                   "required",
                                                   "additionalProperties",
                                                   "unevaluatedProperties",
                                                   "items",
                                                   "prefixItems",
                                                   "minItems",
                                                   "maxItems",
                                                   "pattern",
                                                   "format",
                                                   "minLength",
                                                   "maxLength",
                                                   "minimum",
                                                   "maximum",
                                                   "exclusiveMinimum",
                                                   "exclusiveMaximum"};

// Values of unsupported keywords that require nothing.
bool asks_nothing(const std::string& keyword, const Json& value) {
  if (keyword == "uniqueItems") return value == false;
  if (keyword == "unevaluatedItems") return value == true;
  return (keyword == "minProperties" || keyword == "minContains") && value == 0;
}

size_t weight(const Json& value) {
  if (value.is_string()) return 1 + value.get_ref<const std::string&>().size() / kBytesInStep;
  size_t total = 1;
  if (value.is_structured())
    for (const auto& [key, item] : value.items()) total += weight(item) + (value.is_object() ? key.size() / kBytesInStep : 0);
  return total;
}

bool has_property(const Json& schema, const std::string& name) {
  return schema.contains("properties") && schema["properties"].contains(name);
}

// A schema's rule for unlisted properties forbids some of the other's.
bool closes(const Json& one, const Json& other) {
  auto more = one.find("additionalProperties");
  if (more == one.end() || *more == true || !other.contains("properties")) return false;
  return std::ranges::any_of(other["properties"].items(), [&](const auto& item) { return !has_property(one, item.key()); });
}

Json both(const Json& one, const Json& other) { return Json{{"allOf", {one, other}}}; }

Json listed(const Json& value) { return value.is_array() ? value : Json::array({value}); }

Json common_types(const Json& one, const Json& other) {
  Json types = Json::array();
  for (const auto& a : listed(one))
    for (const auto& b : listed(other)) {
      bool meet = a == b || (a == "integer" && b == "number") || (a == "number" && b == "integer");
      if (meet) types.push_back(a == b ? a : Json("integer"));
    }
  return types.empty() ? Json() : types;
}

// The combined value of a keyword that both schemas have; null if there is none.
Json joined(const std::string& keyword, const Json& one, const Json& other) {
  static const std::set<std::string, std::less<>> kAtLeast{"minimum", "exclusiveMinimum", "minLength", "minItems"},
      kAtMost{"maximum", "exclusiveMaximum", "maxLength", "maxItems"};
  bool numbers = one.is_number() && other.is_number();
  if (kAtLeast.contains(keyword) && numbers) return std::max(one, other);
  if (kAtMost.contains(keyword) && numbers) return std::min(one, other);
  if (keyword == "type") return common_types(one, other);
  if (keyword == "const") return canonical(one) == canonical(other) ? one : Json();
  if (keyword == "items" || keyword == "additionalProperties") return both(one, other);
  if (keyword == "enum" && one.is_array() && other.is_array()) {
    std::set<std::string> others;
    for (const auto& value : other) others.insert(canonical(value));
    Json common = Json::array();
    for (const auto& value : one)
      if (others.contains(canonical(value))) common.push_back(value);
    return common.empty() ? Json() : common;
  }
  return {};
}

void join(Json& all, const std::string& keyword, const Json& value) {
  if (is_annotation(keyword)) return;
  if (keyword == "unevaluatedProperties" && value != true)
    throw UnsupportedSchema{"the keyword \"unevaluatedProperties\" is not supported in a part of another schema"};
  if (!all.contains(keyword)) {
    all[keyword] = value;
  } else if (keyword == "properties") {
    for (const auto& [name, content] : value.items())
      all[keyword][name] = all[keyword].contains(name) ? both(all[keyword][name], content) : content;
  } else if (keyword == "required") {
    for (const auto& each : value) all[keyword].push_back(each);
  } else if (all[keyword] != value) {
    auto one = joined(keyword, all[keyword], value);
    auto words = fmt::format("two parts of a schema disagree about \"{}\"", keyword);
    if (one.is_null() && (keyword == "type" || keyword == "enum" || keyword == "const")) throw SchemaContradiction{{words}};
    if (one.is_null()) throw UnsupportedSchema{words};
    all[keyword] = std::move(one);
  }
}

}  // namespace

bool is_annotation(const std::string& keyword) { return kAnnotations.contains(keyword) || keyword.starts_with("x-"); }

bool only_annotations(const Json& schema) {
  return std::ranges::all_of(schema.items(), [](const auto& item) { return is_annotation(item.key()); });
}

void refuse_unknown_keywords(const Json& schema) {
  for (const auto& [keyword, value] : schema.items())
    if (!kFollowed.contains(keyword) && !is_annotation(keyword) && !asks_nothing(keyword, value))
      throw UnsupportedSchema{fmt::format("the keyword \"{}\" is not supported", keyword)};
}

const Json& schema_list(const Json& schema, const char* keyword) {
  const auto& list = schema[keyword];
  if (!list.is_array() || list.empty()) throw UnsupportedSchema{fmt::format("\"{}\" is not a list, or an empty one", keyword)};
  return list;
}

void SchemaResolver::spend(size_t steps) {
  if (steps > kMostSteps - spent_) throw UnsupportedSchema{"it is too large, or its references multiply too often"};
  spent_ += steps;
}

void SchemaResolver::spend_bytes(size_t bytes) { spend(1 + bytes / kBytesInStep); }

const Json& SchemaResolver::resolved(const Json& reference) const {
  auto path = reference.is_string() ? reference.get<std::string>() : "";
  if (path == "#") return root_;
  if (!path.starts_with("#/")) throw UnsupportedSchema{fmt::format("the reference \"{}\" is not inside the schema", path)};
  try {
    return root_.at(Json::json_pointer(path.substr(1)));
  } catch (const Json::exception&) {
    throw UnsupportedSchema{fmt::format("the reference \"{}\" refers to nothing", path)};
  }
}

const Json& SchemaResolver::followed(const Json& schema) {
  const Json* at = &schema;
  for (int hops = 0; hops <= kMostHops; ++hops) {
    spend_bytes(at->size());
    bool alone = at->is_object() && at->contains("$ref") && std::ranges::all_of(at->items(), [](const auto& item) {
                   return item.key() == "$ref" || is_annotation(item.key());
                 });
    if (!alone) return *at;
    at = &resolved((*at)["$ref"]);
  }
  throw UnsupportedSchema{"references lead back to themselves"};
}

Json SchemaResolver::flattened(const Json& schema, int hops) {
  if (hops > kMostHops) throw UnsupportedSchema{"references lead back to themselves"};
  if (!schema.is_object()) return schema;
  auto all = without(schema, "$ref");
  all.erase("allOf");
  auto add = [&](const Json& part) {
    spend(1);
    if (all == false || part == true) return;
    auto whole = flattened(part, hops + 1);
    all = whole == false ? whole : extended(std::move(all), whole);
  };
  if (schema.contains("$ref")) add(resolved(schema["$ref"]));
  if (schema.contains("allOf"))
    for (const auto& part : schema_list(schema, "allOf")) add(part);
  return all;
}

Json SchemaResolver::without(const Json& schema, std::string_view left_out) {
  Json rest = Json::object();
  for (const auto& [keyword, value] : schema.items()) {
    if (keyword == left_out || is_annotation(keyword)) continue;
    spend(weight(value));
    rest[keyword] = value;
  }
  return rest;
}

Json SchemaResolver::merged(const Json& one, const Json& other) {
  spend(weight(one));
  return extended(one, other);
}

Json SchemaResolver::extended(Json all, const Json& part) {
  if (!part.is_object()) throw UnsupportedSchema{fmt::format("{} where a schema should be", part.type_name())};
  auto properties = [](const Json& schema) { return schema.contains("properties") ? schema["properties"].size() : 0; };
  spend(weight(part) + properties(all) * properties(part) / 16);  // property lookup is linear
  if (closes(all, part) || closes(part, all))
    throw UnsupportedSchema{"\"additionalProperties\" of one part of a schema forbids another's properties"};
  for (const auto& [keyword, value] : part.items()) {
    if (keyword != "properties" && all.contains(keyword)) spend(weight(all[keyword]));  // comparison
    join(all, keyword, value);
  }
  return all;
}

std::string canonical(const Json& value) {
  if (value.is_number_float()) {
    auto number = value.get<double>();
    bool whole = number == std::floor(number) && std::abs(number) < 0x1p63;
    return whole ? std::to_string(static_cast<int64_t>(number)) : value.dump();
  }
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> items;
  for (const auto& [key, item] : value.items())
    items.push_back(value.is_object() ? Json(key).dump() + ":" + canonical(item) : canonical(item));
  if (value.is_object()) std::ranges::sort(items);
  return value.is_object() ? fmt::format("{{{}}}", fmt::join(items, ",")) : fmt::format("[{}]", fmt::join(items, ","));
}

}  // namespace hone::engine
