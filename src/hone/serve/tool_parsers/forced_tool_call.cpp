#include "hone/serve/tool_parsers/forced_tool_call.h"

#include <algorithm>

#include "hone/engine/constraints/json_schema.h"
#include "hone/engine/constraints/regex_parser.h"
#include "hone/serve/tool_parsers/tagged_call.h"

namespace hone::serve {
namespace {

using engine::Pattern;
constexpr int kSchemaDepth = 12;

Json parameters_or_none(const Json& parameters) {
  if (parameters.is_object() && !parameters.empty()) return parameters;
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
}

Json object_schema(const ToolCallFormat& syntax, const ToolSchemas& functions) {
  Json calls = Json::array();
  for (const auto& [name, parameters] : functions)
    calls.push_back(
        {{"type", "object"},
         {"properties", {{"name", {{"const", name}}}, {std::string(syntax.object_key), parameters_or_none(parameters)}}},
         {"required", {"name", syntax.object_key}},
         {"additionalProperties", false}});
  return calls.size() == 1 ? calls[0] : Json{{"anyOf", calls}};
}

// References inside an argument's schema refer to the function's definitions.
Json with_definitions(Json schema, const Json& parameters) {
  if (schema.is_object())
    for (const char* key : {"$defs", "definitions"})
      if (parameters.contains(key)) schema[key] = parameters[key];
  return schema;
}

// Plain text between tags: anything that does not start the closing tag.
Pattern bare_text() { return *engine::parse_regex("([^<]|<(<|/<)*([^</]|/[^<pa]))*"); }

Result<Pattern> value_pattern(const ToolCallFormat::Written& written, const Json& schema) {
  if (written.python || argument_type(schema) != "string") return engine::schema_pattern(schema, kSchemaDepth);
  auto listed = schema.value("enum", Json::array());
  if (auto only = schema.find("const"); only != schema.end()) listed = Json::array({*only});
  if (auto shape = schema.value("pattern", Json()); listed.empty() && shape.is_string())
    return engine::parse_regex_anywhere(shape.get_ref<const std::string&>());
  if (listed.empty()) return bare_text();
  std::vector<Pattern> texts;
  for (const auto& value : listed)
    if (value.is_string()) texts.push_back(engine::pattern_text(value.get_ref<const std::string&>()));
  return engine::pattern_choice(std::move(texts));
}

struct Argument {
  Pattern pattern;
  bool required;
};

Result<std::vector<Argument>> arguments_of(const ToolCallFormat::Written& written, const Json& parameters) {
  std::vector<Argument> arguments;
  const Json required = parameters.value("required", Json::array()),
             properties = parameters.value("properties", Json(Json::object()));
  for (const auto& [key, schema] : properties.items()) {
    auto value = value_pattern(written, with_definitions(schema, parameters));
    if (!value) return Error{value.error()};
    auto opening = fmt::format("{}{}{}", written.key_open, key, written.key_close);
    arguments.push_back({engine::pattern_sequence({engine::pattern_text(opening), std::move(*value)}),
                         required.is_array() && std::ranges::count(required, Json(key)) > 0});
  }
  return arguments;
}

// Tags delimit values; in Python syntax, commas separate the arguments that are present.
Pattern joined(const ToolCallFormat::Written& written, const std::vector<Argument>& arguments) {
  auto separator = engine::pattern_text(written.value_close);
  if (!written.python) {
    std::vector<Pattern> parts;
    for (const auto& [pattern, required] : arguments) {
      auto tagged = engine::pattern_sequence({pattern, separator});
      parts.push_back(required ? tagged : engine::pattern_optional(tagged));
    }
    return engine::pattern_sequence(std::move(parts));
  }
  // From the last to the first: what may follow if something precedes, and if nothing does.
  Pattern after = engine::pattern_sequence({}), alone = after;
  for (auto argument = arguments.rbegin(); argument != arguments.rend(); ++argument) {
    auto here = engine::pattern_sequence({argument->pattern, after}), behind = engine::pattern_sequence({separator, here});
    alone = argument->required ? here : engine::pattern_choice({here, alone});
    after = argument->required ? behind : engine::pattern_choice({behind, after});
  }
  return alone;
}

Result<Pattern> call_pattern(const ToolCallFormat& syntax, const std::string& name, const Json& given) {
  const auto& written = syntax.forced;
  auto parameters = parameters_or_none(given);
  auto begin = engine::pattern_text(name + std::string(written.before_arguments)), end = engine::pattern_text(written.end);
  if (written.key_close.empty()) {
    auto object = engine::schema_pattern(parameters, kSchemaDepth);
    if (!object) return object;
    return engine::pattern_sequence({begin, std::move(*object)});
  }
  auto arguments = arguments_of(written, parameters);
  if (!arguments) return Error{arguments.error()};
  return engine::pattern_sequence({begin, joined(written, *arguments), end});
}

}  // namespace

Result<Pattern> forced_tool_call_pattern(const ToolCallFormat& syntax, const ToolSchemas& functions) {
  if (syntax.objects && syntax.forced.before_arguments.empty())
    return engine::schema_pattern(object_schema(syntax, functions), kSchemaDepth);
  std::vector<Pattern> calls;
  for (const auto& [name, parameters] : functions) {
    auto call = call_pattern(syntax, name, parameters);
    if (!call) return call;
    calls.push_back(std::move(*call));
  }
  auto choice = engine::pattern_choice(std::move(calls));
  if (choice->kind == engine::PatternNode::Kind::nothing) return error("no call of these functions satisfies their schemas");
  bool blank_first = syntax.forced_lead.ends_with(':');  // "Action: f"
  return blank_first ? engine::pattern_sequence({engine::pattern_text(" "), choice}) : choice;
}

}  // namespace hone::serve
