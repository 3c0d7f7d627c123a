#include "hone/cli/factory_v1/v1_settings.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/cli/parsing/parse.h"

namespace hone::cli {
namespace {

Json parsed_value(const std::string& text) {
  auto value = parse_yaml(text);
  return value ? std::move(value).value() : Json(text);
}

}  // namespace

V1Settings::V1Settings(const std::vector<std::string>& words, const SystemAccess& system) {
  size_t i = 0;
  if (!words.empty() && (words[0].ends_with(".yaml") || words[0].ends_with(".yml") || words[0].ends_with(".json"))) {
    where_ = words[0] + ": ";
    for (auto& entry : read_entries(words[0], system.read_file(words[0]))) values_[entry.key] = std::move(entry.value);
    i = 1;
  }
  for (; i < words.size(); ++i) {
    const auto& word = words[i];
    const bool dashed = word.starts_with("--");
    const auto equals = word.find('=');
    auto key = word.substr(dashed ? 2 : 0, equals == word.npos ? word.npos : equals - (dashed ? 2 : 0));
    if (dashed) key = underscored(key);
    if (equals != word.npos)
      set(key, word.substr(equals + 1));
    else if (!dashed)
      throw UserError(ExitCode::usage, fmt::format("unexpected word \"{}\"", word), "give settings as key=value");
    else
      set(key, i + 1 < words.size() && !words[i + 1].starts_with("--") ? words[++i] : "true");
  }
}

// "peft_config.r=16" reaches into a plugin's settings.
void V1Settings::set(const std::string& key, const std::string& text) {
  const auto dot = key.find('.');
  if (dot == key.npos) return void(values_[key] = parsed_value(text));
  auto& plugin = values_[key.substr(0, dot)];
  if (plugin.is_null()) plugin = Json::object();
  if (!plugin.is_object())
    throw UserError(ExitCode::usage, fmt::format("{}: \"{}\" has no settings of its own", key, key.substr(0, dot)));
  plugin[key.substr(dot + 1)] = parsed_value(text);
}

std::optional<Json> V1Settings::take(const std::string& key) {
  auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  Json value = std::move(*found);
  values_.erase(key);
  return value.is_null() ? std::nullopt : std::optional(std::move(value));
}

Json V1Settings::take_or(const std::string& key, Json otherwise) { return take(key).value_or(std::move(otherwise)); }

std::optional<V1Settings> V1Settings::take_plugin(const std::string& key) {
  auto value = take(key);
  if (!value) return std::nullopt;
  if (value->is_string()) *value = parse_json(value->get<std::string>()).or_throw(ExitCode::usage, where_ + key);
  if (!value->is_object() || !value->contains("name"))
    throw UserError(ExitCode::usage, fmt::format("{}{} has no name", where_, key),
                    "expected a mapping with a name, as in name: lora");
  return V1Settings(fmt::format("{}{}.", where_, key), std::move(*value));
}

void V1Settings::refuse_rest() const {
  for (const auto& [key, value] : values_.items())
    if (!value.is_null())
      throw UserError(ExitCode::usage, fmt::format("{}unknown key \"{}\"", where_, key),
                      "with USE_V1=1 the keys are those of LLaMA-Factory's v1; unset it for model_name_or_path and the others");
}

std::string v1_word(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& one : value) list += (list.empty() ? "" : ",") + v1_word(one);
  return list;
}

}  // namespace hone::cli
