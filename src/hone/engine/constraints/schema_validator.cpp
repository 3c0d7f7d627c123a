#include "hone/engine/constraints/schema_validator.h"

#include <algorithm>
#include <cmath>

#include "hone/base/strings/utf8.h"
#include "hone/engine/constraints/decimal.h"
#include "hone/engine/constraints/json_rules.h"
#include "hone/engine/constraints/regex_parser.h"
#include "hone/engine/constraints/schema_resolver.h"

namespace hone::engine {
namespace {

constexpr int kMostReferences = 32;
constexpr size_t kMemory = 16 << 20;  // for all expressions together

bool is_whole(const Json& number) {
  return !number.is_number_float() || number.get<double>() == std::floor(number.get<double>());
}

bool is_of_type(const Json& value, const Json& type) {
  if (type == "integer") return value.is_number() && is_whole(value);
  return value.type_name() == type.get<std::string>();
}

bool less(const Json& one, const Json& other) {
  if (one.is_number_float() || other.is_number_float()) return one.get<double>() < other.get<double>();
  return scaled_down(one, 0) < scaled_down(other, 0);
}

bool accepts_number(const Json& schema, const Json& value) {
  auto holds = [&](const char* name, auto fits) {
    auto bound = schema.find(name);
    if (bound == schema.end()) return true;
    if (!bound->is_number()) throw UnsupportedSchema{fmt::format("\"{}\" is {}; expected a number", name, bound->dump())};
    return fits(*bound);
  };
  return holds("minimum", [&](const Json& bound) { return !less(value, bound); }) &&
         holds("maximum", [&](const Json& bound) { return !less(bound, value); }) &&
         holds("exclusiveMinimum", [&](const Json& bound) { return less(bound, value); }) &&
         holds("exclusiveMaximum", [&](const Json& bound) { return less(value, bound); });
}

bool fits_bounds(const Json& schema, size_t size, const char* least, const char* most) {
  return size >= static_cast<size_t>(size_bound(schema, least, 0)) &&
         (!schema.contains(most) || size <= static_cast<size_t>(size_bound(schema, most, 0)));
}

}  // namespace

SchemaValidator::SchemaValidator(SchemaResolver& view) : view_(view), memory_(std::make_shared<MemoryBudget>(kMemory)) {}

bool SchemaValidator::accepts(const Json& schema, ValidatedValue& validated, int hops) {
  const auto& value = validated.value;
  view_.spend_bytes(schema.size());
  if (hops > kMostReferences) throw UnsupportedSchema{"references lead back to themselves"};
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object()) throw UnsupportedSchema{fmt::format("{} where a schema should be", schema.type_name())};
  refuse_unknown_keywords(schema);
  if (!accepts_by_parts(schema, validated, hops)) return false;
  if (auto type = schema.find("type"); type != schema.end()) {
    view_.spend(type->size());
    const Json types = type->is_array() ? *type : Json::array({*type});
    if (std::ranges::none_of(types, [&](const Json& one) { return is_of_type(value, one); })) return false;
  }
  auto is_equal = [&](const Json& listed) { return is_same(listed, validated); };
  if (schema.contains("const") && !is_equal(schema["const"])) return false;
  if (schema.contains("enum") && std::ranges::none_of(schema_list(schema, "enum"), is_equal)) return false;
  if (value.is_number()) return accepts_number(schema, value);
  if (value.is_string()) return accepts_string(schema, value.get_ref<const std::string&>());
  if (value.is_object()) return accepts_object(schema, value);
  return !value.is_array() || accepts_array(schema, value);
}

bool SchemaValidator::is_same(const Json& listed, ValidatedValue& validated) {
  if (!validated.text) validated.text = spent_canonical(validated.value);
  return spent_canonical(listed) == *validated.text;
}

std::string SchemaValidator::spent_canonical(const Json& value) {
  auto text = canonical(value);
  view_.spend_bytes(text.size());
  return text;
}

bool SchemaValidator::accepts_by_parts(const Json& schema, ValidatedValue& validated, int hops) {
  if (schema.contains("$ref") || schema.contains("allOf")) {
    const auto& target = view_.followed(schema);
    return &target != &schema ? accepts(target, validated, hops + 1) : accepts(view_.flattened(schema), validated, hops + 1);
  }
  auto held_by = [&](const char* name) {
    return std::ranges::count_if(schema_list(schema, name), [&](const Json& part) { return accepts(part, validated, hops + 1); });
  };
  return (!schema.contains("anyOf") || held_by("anyOf") > 0) && (!schema.contains("oneOf") || held_by("oneOf") == 1);
}

bool SchemaValidator::accepts_string(const Json& schema, const std::string& text) {
  view_.spend_bytes(text.size());
  if (!fits_bounds(schema, count_characters(text), "minLength", "maxLength")) return false;
  if (auto pattern = schema.find("pattern"); pattern != schema.end()) {
    auto expression = pattern->get<std::string>();
    if (!matches(
            "pattern " + expression, [&] { return parse_regex_anywhere(expression); }, text))
      return false;
  }
  auto format = schema.find("format");
  if (format == schema.end()) return true;
  auto inside = json_format(format->get<std::string>());
  return !inside || matches(
                        "format " + format->get<std::string>(), [&] { return Result<Pattern>(*inside); }, text);
}

bool SchemaValidator::matches(const std::string& name, const std::function<Result<Pattern>()>& pattern,
                              const std::string& text) try {
  view_.spend(text.size());
  auto known = automata_.find(name);
  if (known == automata_.end()) {
    view_.spend(name.size());
    auto made = pattern();
    if (!made) throw UnsupportedSchema{made.error()};
    auto automaton = Automaton::make(*made, {}, memory_);
    if (!automaton) throw UnsupportedSchema{automaton.error()};
    known = automata_.emplace(name, std::move(*automaton)).first;
  }
  auto& automaton = known->second;
  automaton.renew_work();
  auto state = Automaton::kStart;
  for (char byte : text)
    if (state = automaton.step(state, static_cast<uint8_t>(byte)); state == Automaton::kDead) return false;
  return automaton.accepts(state);
} catch (const ConstraintError& problem) {
  throw UnsupportedSchema{problem.what()};
}

bool SchemaValidator::accepts_object(const Json& schema, const Json& value) {
  static const Json kNone = Json::object(), kAnything = true;
  const Json required = schema.value("required", Json::array());
  const Json& properties = schema.contains("properties") ? schema["properties"] : kNone;
  view_.spend_bytes((required.size() + properties.size()) * (value.size() + 1));  // property lookup is linear
  for (const auto& name : required)
    if (!value.contains(name.get<std::string>())) return false;
  const Json& more = schema.contains("additionalProperties")    ? schema["additionalProperties"]
                     : schema.contains("unevaluatedProperties") ? schema["unevaluatedProperties"]
                                                                : kAnything;
  return std::ranges::all_of(value.items(), [&](const auto& item) {
    return accepts(properties.contains(item.key()) ? properties[item.key()] : more, item.value());
  });
}

bool SchemaValidator::accepts_array(const Json& schema, const Json& value) {
  if (!fits_bounds(schema, value.size(), "minItems", "maxItems")) return false;
  size_t listed = 0;
  if (schema.contains("prefixItems"))
    for (const auto& item : schema_list(schema, "prefixItems"))
      if (listed < value.size() && !accepts(item, value[listed++])) return false;
  for (; schema.contains("items") && listed < value.size(); ++listed)
    if (!accepts(schema["items"], value[listed])) return false;
  return true;
}

}  // namespace hone::engine
