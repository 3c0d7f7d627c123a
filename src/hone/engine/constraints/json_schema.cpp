#include "hone/engine/constraints/json_schema.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "hone/engine/constraints/json_exclusive.h"
#include "hone/engine/constraints/json_parts.h"

namespace hone::engine {
namespace {

constexpr size_t kMostNodes = 20'000;  // of schemas visited: references may multiply
constexpr std::string_view kExactlyOne = "oneOf";

Pattern text(std::string_view utf8) { return pattern_text(utf8); }

// What people and models put between parts: nothing, a space, or a line break with its indentation.
Pattern blank() {
  static const Pattern pattern =
      pattern_optional(pattern_choice({text(" "), pattern_sequence({text("\n"), pattern_repeat(text(" "), 0, 32)})}));
  return pattern;
}

// Words about a schema that say nothing about what it accepts.
bool is_remark(const std::string& key) {
  static const std::set<std::string> kRemarks{"title",      "description", "default",   "examples",     "$comment",
                                              "deprecated", "readOnly",    "writeOnly", "$schema",      "$id",
                                              "$defs",      "definitions", "$anchor",   "discriminator"};
  return kRemarks.contains(key);
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer() || (value.is_number() && value == std::floor(value.get<double>()));
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

// Keywords that only speak of one type, for schemas that name none.
const std::pair<const char*, std::vector<const char*>> kImplied[] = {
    {"object", {"properties", "required", "additionalProperties"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems"}},
    {"string", {"pattern", "format", "minLength", "maxLength"}},
    {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
};

class Reader {
 public:
  Reader(const Json& root, int depth) : root_(root), most_depth_(depth) {}

  Pattern value(const Json& schema, int depth) {
    if (++visited_ > kMostNodes) throw SchemaRefusal{"references multiply too often"};
    if (schema.is_boolean()) return schema.get<bool>() ? anything(depth) : pattern_nothing();
    if (!schema.is_object()) throw SchemaRefusal{fmt::format("{} where a schema should be", schema.type_name())};
    if (depth > most_depth_) return pattern_nothing();
    refuse_unknown(schema);
    if (auto ref = schema.find("$ref"); ref != schema.end()) return value(with_reference(schema, *ref), depth + 1);
    if (auto all = schema.find("allOf"); all != schema.end()) return value(merged(without(schema, "allOf"), *all), depth);
    for (auto name : {std::string_view("anyOf"), kExactlyOne})
      if (schema.contains(name)) return alternatives(schema, name, depth);
    if (schema.contains("const")) return enumeration(schema, Json::array({schema["const"]}));
    if (auto values = schema.find("enum"); values != schema.end()) return enumeration(schema, *values);
    return typed(schema, depth);
  }

 private:
  static void refuse_unknown(const Json& schema) {
    for (const char* name :
         {"not", "if", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "contains", "uniqueItems",
          "minProperties", "maxProperties", "multipleOf", "unevaluatedProperties", "unevaluatedItems"}) {
      auto found = schema.find(name);
      if (found != schema.end() && !(found->is_boolean() && !found->get<bool>()))
        throw SchemaRefusal{fmt::format("the keyword \"{}\" is not supported", name)};
    }
  }

  const Json& resolve(const Json& ref) const {
    auto path = ref.is_string() ? ref.get<std::string>() : "";
    if (path == "#") return root_;
    if (!path.starts_with("#/")) throw SchemaRefusal{fmt::format("the reference \"{}\" does not lie inside the schema", path)};
    try {
      return root_.at(Json::json_pointer(path.substr(1)));
    } catch (const Json::exception&) {
      throw SchemaRefusal{fmt::format("the reference \"{}\" leads nowhere", path)};
    }
  }

  static Json without(Json schema, std::string_view name) {
    schema.erase(std::string(name));
    return schema;
  }

  // The pattern of "oneOf" is that of "anyOf", which is right only where no two can hold at once.
  void check_exclusive(const Json& parts) const {
    auto view = [this](Json schema) {
      for (int hops = 0; schema.is_object() && schema.contains("$ref") && hops < most_depth_; ++hops)
        schema = with_reference(schema, schema["$ref"]);
      return schema.is_object() && schema.contains("allOf") ? merged(without(schema, "allOf"), schema["allOf"]) : schema;
    };
    for (size_t i = 0; i < parts.size(); ++i)
      for (size_t j = i + 1; j < parts.size(); ++j)
        if (!shut_each_other_out(parts[i], parts[j], view))
          throw SchemaRefusal{fmt::format("alternatives {} and {} of \"oneOf\" may both accept an answer; use \"anyOf\", or give them different "
                                          "types or a required property with different values of \"const\"", i + 1, j + 1)};
  }

  // What is referred to, under what stands beside the reference.
  Json with_reference(const Json& schema, const Json& ref) const {
    auto beside = without(schema, "$ref");
    bool alone = std::ranges::all_of(beside.items(), [](const auto& item) { return is_remark(item.key()); });
    return alone ? resolve(ref) : merged(beside, Json::array({resolve(ref)}));
  }

  // A schema that accepts what `schema` and all of the parts accept. Keywords both have must be equal, or of a kind that can be
  // joined.
  Json merged(Json all, const Json& parts) const {
    for (const auto& part : parts) {
      if (part == true) continue;
      if (!part.is_object()) throw SchemaRefusal{"a part of \"allOf\" is no schema of an object"};
      const Json source = part.contains("$ref") ? with_reference(part, part["$ref"]) : part;
      if (closes(all, source) || closes(source, all))
        throw SchemaRefusal{"\"additionalProperties\" of one part of a schema forbids another's properties"};
      for (const auto& [key, item] : source.items()) join(all, key, item);
    }
    return all;
  }

  static bool closes(const Json& one, const Json& other) {
    auto more = one.find("additionalProperties");
    if (more == one.end() || *more == true || !other.contains("properties")) return false;
    return std::ranges::any_of(other["properties"].items(), [&](const auto& item) {
      return !one.contains("properties") || !one["properties"].contains(item.key());
    });
  }

  static void join(Json& all, const std::string& key, const Json& item) {
    if (!all.contains(key)) {
      all[key] = item;
    } else if (key == "properties") {
      for (const auto& [name, content] : item.items())
        all[key][name] = all[key].contains(name) ? Json{{"allOf", {all[key][name], content}}} : content;
    } else if (key == "required" || key == "allOf") {
      for (const auto& each : item) all[key].push_back(each);
    } else if (all[key] != item && !is_remark(key)) {
      throw SchemaRefusal{fmt::format("two parts of a schema disagree about \"{}\"", key)};
    }
  }

  static Pattern enumeration(const Json& schema, const Json& values) {
    std::vector<Pattern> parts;
    Json types = schema.value("type", Json::array());
    if (types.is_string()) types = Json::array({types});
    for (const auto& item : values) {
      bool fits = types.empty() ||
                  std::ranges::any_of(types, [&](const Json& type) { return is_of_type(item, type.get<std::string>()); });
      if (fits) parts.push_back(text(item.dump()));
    }
    return pattern_choice(std::move(parts));
  }

  // Each alternative under what stands beside them.
  Pattern alternatives(const Json& schema, std::string_view name, int depth) {
    auto beside = without(schema, name);
    if (name == kExactlyOne) check_exclusive(schema[name]);
    std::vector<Pattern> parts;
    for (const auto& part : schema[name]) {
      bool plain = part.is_boolean() || beside.empty();
      parts.push_back(value(part == true ? beside : plain ? part : merged(beside, Json::array({part})), depth + 1));
    }
    return pattern_choice(std::move(parts));
  }

  Pattern typed(const Json& schema, int depth) {
    auto type = schema.find("type");
    if (type != schema.end() && type->is_array()) {
      std::vector<Pattern> parts;
      for (const auto& one : *type) parts.push_back(of_type(one.get<std::string>(), schema, depth));
      return pattern_choice(std::move(parts));
    }
    if (type != schema.end()) return of_type(type->get<std::string>(), schema, depth);
    for (const auto& [type, words] : kImplied)
      for (const char* word : words)
        if (schema.contains(word)) return of_type(type, schema, depth);
    return anything(depth);
  }

  Pattern of_type(const std::string& type, const Json& schema, int depth) {
    if (type == "string") return json_string(schema);
    if (type == "integer") return json_integer(schema);
    if (type == "number") return json_number(schema);
    if (type == "boolean") return pattern_choice({text("true"), text("false")});
    if (type == "null") return text("null");
    if (type == "object") return object(schema, depth);
    if (type == "array") return array(schema, depth);
    throw SchemaRefusal{fmt::format("the type \"{}\" is unknown", type)};
  }

  // Members of a list with commas between them: at least `min`, at most `max` (-1: no end).
  static Pattern listed(const Pattern& member, int min, int max) {
    if (max == 0) return pattern_sequence({});
    auto more = pattern_repeat(pattern_sequence({blank_comma(), member}), std::max(min - 1, 0), max < 0 ? -1 : max - 1);
    auto some = pattern_sequence({member, more});
    return min > 0 ? some : pattern_optional(some);
  }
  static Pattern blank_comma() { return pattern_sequence({text(","), blank()}); }
  static Pattern enclosed(const char* open, Pattern inside, const char* close) {
    return pattern_sequence({text(open), blank(), std::move(inside), blank(), text(close)});
  }

  Pattern array(const Json& schema, int depth) {
    if (auto prefix = schema.find("prefixItems"); prefix != schema.end()) {
      std::vector<Pattern> parts;
      for (const auto& item : *prefix) {
        if (!parts.empty()) parts.push_back(blank_comma());
        parts.push_back(value(item, depth + 1));
      }
      auto count = static_cast<int>(prefix->size());
      if (count < size_bound(schema, "minItems", 0) || count > size_bound(schema, "maxItems", count)) return pattern_nothing();
      return enclosed("[", pattern_sequence(std::move(parts)), "]");
    }
    auto items = schema.contains("items") ? value(schema["items"], depth + 1) : anything(depth + 1);
    int least = size_bound(schema, "minItems", 0), most = size_bound(schema, "maxItems", -1);
    return most >= 0 && least > most ? pattern_nothing() : enclosed("[", listed(items, least, most), "]");
  }

  Pattern member(const Pattern& name, const Pattern& content) { return pattern_sequence({name, text(":"), blank(), content}); }

  Pattern object(const Json& schema, int depth) {
    static const Json kNone = Json::object(), kAnything = true;
    const Json& properties = schema.contains("properties") ? schema["properties"] : kNone;
    const Json& more = schema.contains("additionalProperties") ? schema["additionalProperties"] : kAnything;
    std::set<std::string> required;
    for (const auto& name : schema.value("required", Json::array())) required.insert(name.get<std::string>());
    if (properties.empty() && required.empty())
      return enclosed("{", listed(member(json_any_string(), value(more, depth + 1)), 0, -1), "}");
    std::vector<std::pair<Pattern, bool>> members;  // and whether it must be there
    for (const auto& [name, content] : properties.items()) {
      members.emplace_back(member(text(Json(name).dump()), value(content, depth + 1)), required.contains(name));
      required.erase(name);
    }
    for (const auto& name : required) members.emplace_back(member(text(Json(name).dump()), value(more, depth + 1)), true);
    return enclosed("{", members_from(members, 0), "}");
  }

  // The members from the i-th on, none written yet.
  static Pattern members_from(const std::vector<std::pair<Pattern, bool>>& members, size_t i) {
    if (i == members.size()) return pattern_sequence({});
    std::vector<Pattern> parts{members[i].first};
    for (size_t j = i + 1; j < members.size(); ++j) {
      auto next = pattern_sequence({blank_comma(), members[j].first});
      parts.push_back(members[j].second ? next : pattern_optional(next));
    }
    auto with = pattern_sequence(std::move(parts));
    return members[i].second ? with : pattern_choice({with, members_from(members, i + 1)});
  }

  // JSON that no schema describes. Each level is made once and shared.
  Pattern anything(int depth) {
    int left = std::clamp(most_depth_ - depth, 0, 4);  // a pattern is as large as its nesting is deep, squared
    Pattern pattern = scalar();
    for (int i = 0; i < left; ++i) {
      auto name = json_any_string();
      pattern = pattern_choice(
          {scalar(), enclosed("[", listed(pattern, 0, -1), "]"), enclosed("{", listed(member(name, pattern), 0, -1), "}")});
    }
    return pattern;
  }
  static Pattern scalar() {
    return pattern_choice({json_any_string(), json_number(Json::object()), text("true"), text("false"), text("null")});
  }

  const Json& root_;
  int most_depth_;
  size_t visited_ = 0;
};

}  // namespace

Result<Pattern> schema_pattern(const Json& schema, int depth) try {
  auto pattern = Reader(schema, depth).value(schema, 0);
  if (pattern->kind == PatternNode::Kind::nothing)
    return error("the schema accepts nothing, or only texts nested more than {} deep", depth);
  return pattern;
} catch (const SchemaRefusal& refusal) {
  return error("the schema cannot be followed: {}", refusal.message);
} catch (const Json::exception& problem) {
  return error("the schema is malformed: {}", problem.what());
}

}  // namespace hone::engine
