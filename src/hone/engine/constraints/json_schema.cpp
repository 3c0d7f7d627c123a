#include "hone/engine/constraints/json_schema.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "hone/engine/constraints/regex_parser.h"

namespace hone::engine {
namespace {

constexpr int64_t kLargestInteger = 999'999'999'999'999;  // what every reader of JSON holds exactly
constexpr size_t kMostNodes = 20'000;                      // of schemas visited: references may multiply

struct SchemaRefusal {
  std::string message;
};

Pattern text(std::string_view utf8) { return pattern_text(utf8); }

// What people and models put between parts: nothing, a space, or a line break with its indentation.
Pattern blank() {
  static const Pattern pattern = pattern_optional(pattern_choice({text(" "), pattern_sequence({text("\n"), pattern_repeat(text(" "), 0, 32)})}));
  return pattern;
}

Pattern fixed(std::string_view expression) { return std::move(parse_regex(expression)).or_throw(ExitCode::failure, "a pattern of our own"); }

Pattern character() {
  static const Pattern pattern = pattern_choice(
      {pattern_characters(complement(normalised({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}}))), fixed(R"(\\(["\\/bfnrt]|u[0-9a-cA-CefEF][0-9a-fA-F]{3}))")});
  return pattern;
}

Pattern quoted(Pattern inside) { return pattern_sequence({text("\""), std::move(inside), text("\"")}); }

const char* format_expression(const std::string& format) {
  if (format == "date") return "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])";
  if (format == "time") return "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z";
  if (format == "date-time") return "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z";
  if (format == "uuid") return "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
  if (format == "email") return "[a-z0-9._-]{1,32}@[a-z0-9-]{1,32}\\.[a-z]{2,8}";
  if (format == "ipv4") return "((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return nullptr;
}

class Reader {
 public:
  Reader(const Json& root, int depth) : root_(root), most_depth_(depth) {}

  Pattern value(const Json& schema, int depth) {
    if (++visited_ > kMostNodes) throw SchemaRefusal{"references multiply too often"};
    if (schema.is_boolean()) return schema.get<bool>() ? anything(depth) : pattern_nothing();
    if (!schema.is_object()) throw SchemaRefusal{fmt::format("{} where a schema should be", schema.type_name())};
    if (depth > most_depth_) return pattern_nothing();
    refuse_unknown(schema);
    if (auto ref = schema.find("$ref"); ref != schema.end()) return value(resolve(*ref), depth + 1);
    if (auto all = schema.find("allOf"); all != schema.end()) return value(merged(schema, *all), depth);
    if (schema.contains("const")) return text(schema["const"].dump());
    if (auto values = schema.find("enum"); values != schema.end()) return enumeration(*values);
    for (const char* name : {"anyOf", "oneOf"})
      if (auto parts = schema.find(name); parts != schema.end()) return alternatives(*parts, depth);
    return typed(schema, depth);
  }

 private:
  static void refuse_unknown(const Json& schema) {
    for (const char* name : {"not", "if", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "contains", "uniqueItems", "minProperties",
                             "maxProperties", "multipleOf", "unevaluatedProperties", "unevaluatedItems"}) {
      auto found = schema.find(name);
      if (found != schema.end() && !(found->is_boolean() && !found->get<bool>())) throw SchemaRefusal{fmt::format("the keyword \"{}\" is not supported", name)};
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

  // The parts of allOf laid over each other; fields that both have must be objects of properties or lists of names.
  Json merged(const Json& schema, const Json& parts) const {
    Json all = schema;
    all.erase("allOf");
    for (const auto& part : parts) {
      const Json& source = part.contains("$ref") ? resolve(part["$ref"]) : part;
      for (const auto& [key, item] : source.items()) {
        if (!all.contains(key)) {
          all[key] = item;
        } else if (key == "properties" || key == "$defs") {
          all[key].update(item);
        } else if (key == "required") {
          for (const auto& name : item) all[key].push_back(name);
        } else if (all[key] != item) {
          throw SchemaRefusal{fmt::format("the parts of \"allOf\" disagree about \"{}\"", key)};
        }
      }
    }
    return all;
  }

  static Pattern enumeration(const Json& values) {
    std::vector<Pattern> parts;
    for (const auto& item : values) parts.push_back(text(item.dump()));
    return pattern_choice(std::move(parts));
  }

  Pattern alternatives(const Json& schemas, int depth) {
    std::vector<Pattern> parts;
    for (const auto& schema : schemas) parts.push_back(value(schema, depth + 1));
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
    if (schema.contains("properties")) return object(schema, depth);
    if (schema.contains("items")) return array(schema, depth);
    return anything(depth);
  }

  Pattern of_type(const std::string& type, const Json& schema, int depth) {
    if (type == "string") return string(schema);
    if (type == "integer") return integer(schema);
    if (type == "number") return number(schema);
    if (type == "boolean") return pattern_choice({text("true"), text("false")});
    if (type == "null") return text("null");
    if (type == "object") return object(schema, depth);
    if (type == "array") return array(schema, depth);
    throw SchemaRefusal{fmt::format("the type \"{}\" is unknown", type)};
  }

  static Pattern string(const Json& schema) {
    if (auto pattern = schema.find("pattern"); pattern != schema.end()) {
      auto inside = parse_regex(pattern->get<std::string>());
      if (!inside) throw SchemaRefusal{inside.error()};
      return quoted(*inside);
    }
    if (auto format = schema.find("format"); format != schema.end())
      if (const char* expression = format_expression(format->get<std::string>())) return quoted(fixed(expression));
    return quoted(pattern_repeat(character(), schema.value("minLength", 0), schema.value("maxLength", -1)));
  }

  static int64_t bound(const Json& schema, const char* inclusive, const char* exclusive, int64_t otherwise, int direction) {
    int64_t result = otherwise;
    auto tighten = [&](double limit, int step) {
      auto whole = static_cast<int64_t>(direction > 0 ? std::ceil(limit) : std::floor(limit));
      if (step && static_cast<double>(whole) == limit) whole += direction;
      result = direction > 0 ? std::max(result, whole) : std::min(result, whole);
    };
    if (schema.contains(inclusive)) tighten(schema[inclusive].get<double>(), 0);
    if (schema.contains(exclusive)) tighten(schema[exclusive].get<double>(), 1);
    return result;
  }

  static Pattern integer(const Json& schema) {
    return integers_between(bound(schema, "minimum", "exclusiveMinimum", -kLargestInteger, +1), bound(schema, "maximum", "exclusiveMaximum", kLargestInteger, -1));
  }

  // Within bounds: the integers between them, with decimals where the next integer is inside too.
  static Pattern number(const Json& schema) {
    bool bounded = schema.contains("minimum") || schema.contains("exclusiveMinimum") || schema.contains("maximum") || schema.contains("exclusiveMaximum");
    if (!bounded) return fixed(R"(-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?)");
    auto low = bound(schema, "minimum", "exclusiveMinimum", -kLargestInteger, +1), high = bound(schema, "maximum", "exclusiveMaximum", kLargestInteger, -1);
    auto decimals = fixed(R"(\.[0-9]{1,15})");
    std::vector<Pattern> parts{integers_between(low, high)};
    if (high >= 1 && low < high) parts.push_back(pattern_sequence({integers_between(std::max<int64_t>(low, 0), high - 1), decimals}));
    if (low <= -1 && low < high) parts.push_back(pattern_sequence({integers_between(low + 1, std::min<int64_t>(high, -1)), decimals}));
    return pattern_choice(std::move(parts));
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
      return enclosed("[", pattern_sequence(std::move(parts)), "]");
    }
    auto items = schema.contains("items") ? value(schema["items"], depth + 1) : anything(depth + 1);
    return enclosed("[", listed(items, schema.value("minItems", 0), schema.value("maxItems", -1)), "]");
  }

  Pattern member(const Pattern& name, const Pattern& content) { return pattern_sequence({name, text(":"), blank(), content}); }

  Pattern object(const Json& schema, int depth) {
    auto properties = schema.find("properties");
    if (properties == schema.end() || properties->empty()) {
      auto more = schema.find("additionalProperties");
      auto content = more == schema.end() ? anything(depth + 1) : value(*more, depth + 1);
      return enclosed("{", listed(member(quoted(pattern_repeat(character(), 0)), content), 0, -1), "}");
    }
    std::set<std::string> required;
    for (const auto& name : schema.value("required", Json::array())) required.insert(name.get<std::string>());
    std::vector<std::pair<Pattern, bool>> members;  // and whether it must be there
    for (const auto& [name, content] : properties->items()) {
      members.emplace_back(member(text(Json(name).dump()), value(content, depth + 1)), required.contains(name));
      required.erase(name);
    }
    if (!required.empty()) throw SchemaRefusal{fmt::format("\"{}\" is required but is no property", *required.begin())};
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
      auto name = quoted(pattern_repeat(character(), 0));
      pattern = pattern_choice({scalar(), enclosed("[", listed(pattern, 0, -1), "]"), enclosed("{", listed(member(name, pattern), 0, -1), "}")});
    }
    return pattern;
  }
  static Pattern scalar() {
    return pattern_choice({quoted(pattern_repeat(character(), 0)), number(Json::object()), text("true"), text("false"), text("null")});
  }

  const Json& root_;
  int most_depth_;
  size_t visited_ = 0;
};

}  // namespace

Result<Pattern> schema_pattern(const Json& schema, int depth) try {
  auto pattern = Reader(schema, depth).value(schema, 0);
  if (pattern->kind == PatternNode::Kind::nothing) return error("the schema accepts nothing, or only texts nested more than {} deep", depth);
  return pattern;
} catch (const SchemaRefusal& refusal) {
  return error("the schema cannot be followed: {}", refusal.message);
} catch (const Json::exception& problem) {
  return error("the schema is malformed: {}", problem.what());
}

}  // namespace hone::engine
