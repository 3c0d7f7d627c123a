#include "hone/io/adapter_config.h"

#include <cmath>

namespace hone::io {
namespace {

// Keys that change a layer's computation in unsupported ways. Null, false and empty values mean "not used".
constexpr const char* kUnsupported[] = {
    "fan_in_fan_out",         "lora_bias",   "layer_replication", "use_qalora",    "use_bdlora",
    "arrow_config",           "kasa_config", "monteclora_config", "velora_config", "alora_invocation_tokens",
    "trainable_token_indices"};

// Keys common to all methods.
constexpr const char* kCommonKeys[] = {
    "auto_mapping",        "base_model_name_or_path", "bias",      "exclude_modules", "inference_mode", "layers_pattern",
    "layers_to_transform", "modules_to_save",         "peft_type", "revision",        "swift_type",     "target_modules",
    "task_type",           "fan_in_fan_out"};

bool is_used(const Json& value) {
  return !(value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
           ((value.is_array() || value.is_object()) && value.empty()));
}

// Reads typed fields and records the first with the wrong type.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  template <class T>
  void read(const char* key, T& target) {
    const Json* value = find(key);
    if (!value) return;
    const bool fits = std::is_same_v<T, bool>   ? value->is_boolean()
                      : std::is_arithmetic_v<T> ? value->is_number()
                                                : value->is_string();
    if (fits)
      target = value->get<T>();
    else
      complain(key, *value);
  }
  template <class T>
  void read_list(const char* key, std::vector<T>& target) {
    const Json* value = find(key);
    if (!value) return;
    const Json list = value->is_array() ? *value : Json::array({*value});
    for (const auto& item : list) {
      if (std::is_arithmetic_v<T> ? item.is_number_integer() : item.is_string())
        target.push_back(item.get<T>());
      else
        complain(key, item);
    }
  }
  void read_pattern(const char* key, ModulePattern& target) {
    if (const Json* value = find(key); value && value->is_string())
      target.regex = value->get<std::string>();
    else
      read_list(key, target.names);
  }
  template <class T>
  void read_map(const char* key, std::vector<std::pair<std::string, T>>& target) {
    const Json* value = find(key);
    if (!value) return;
    if (!value->is_object()) return complain(key, *value);
    for (const auto& [name, number] : value->items()) {
      if (number.is_number())
        target.emplace_back(name, number.template get<T>());
      else
        complain(key, number);
    }
  }
  void read_init(std::string& target) {
    const Json* value = find("init_lora_weights");
    if (!value) return;
    if (value->is_boolean())
      target = value->get<bool>() ? "true" : "false";
    else
      read("init_lora_weights", target);
  }
  void read_loftq(AdapterConfig& config) {
    const Json* value = find("loftq_config");
    if (!value) return;
    if (!value->is_object()) return complain("loftq_config", *value);
    Fields inner(*value);
    inner.read("loftq_bits", config.loftq_bits);
    inner.read("loftq_iter", config.loftq_iterations);
    if (problem_.empty()) problem_ = inner.problem_;
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json* find(const char* key) const {
    auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  void complain(const char* key, const Json& value) {
    if (problem_.empty()) problem_ = fmt::format("\"{}\" holds {}", key, value.dump());
  }
  const Json& json_;
  std::string problem_;
};

Json number(double value) { return value == std::floor(value) ? Json(static_cast<int64_t>(value)) : Json(value); }
Json list_or_null(const auto& items) { return items.empty() ? Json() : Json(items); }
Json pattern_json(const ModulePattern& pattern) {
  if (!pattern.regex.empty()) return pattern.regex;
  return list_or_null(pattern.names);
}
// PEFT selects modules itself if a config names none; an empty list prevents that.
Json target_modules_json(const AdapterConfig& config) {
  return config.targets.empty() && !config.target_parameters.empty() ? Json::array() : pattern_json(config.targets);
}
template <class T>
Json map_json(const std::vector<std::pair<std::string, T>>& entries) {
  Json object = Json::object();
  for (const auto& [name, value] : entries) object[name] = number(static_cast<double>(value));
  return object;
}
Json loftq_json(const AdapterConfig& config) {
  if (config.init != "loftq") return Json::object();
  return {{"loftq_bits", config.loftq_bits}, {"loftq_iter", config.loftq_iterations}};
}
Json init_json(const std::string& init) { return init == "true" || init == "false" ? Json(init == "true") : Json(init); }

Json lora_json(const AdapterConfig& config) {
  return {
      {"alpha_pattern", map_json(config.alpha_pattern)},
      {"auto_mapping", nullptr},
      {"base_model_name_or_path", config.base_model},
      {"bias", config.bias},
      {"exclude_modules", pattern_json(config.excluded)},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", init_json(config.init)},
      {"layer_replication", nullptr},
      {"layers_pattern", list_or_null(config.layers_pattern)},
      {"layers_to_transform", list_or_null(config.layers_to_transform)},
      {"loftq_config", loftq_json(config)},
      {"lora_alpha", number(config.alpha)},
      {"lora_bias", false},
      {"lora_dropout", config.dropout},
      {"megatron_config", nullptr},
      {"megatron_core", "megatron.core"},
      {"modules_to_save", list_or_null(config.modules_to_save)},
      {"peft_type", config.peft_type},
      {"r", config.rank},
      {"rank_pattern", map_json(config.rank_pattern)},
      {"revision", nullptr},
      {"target_modules", target_modules_json(config)},
      {"target_parameters", list_or_null(config.target_parameters)},
      {"task_type", config.task_type.empty() ? Json() : Json(config.task_type)},
      {"use_dora", config.dora},
      {"use_rslora", config.rslora},
  };
}

Json common_json(const AdapterConfig& config) {
  Json json{{"base_model_name_or_path", config.base_model}, {"target_modules", pattern_json(config.targets)}};
  if (config.is_swift_tuner) {
    json["swift_type"] = config.peft_type;
    return json;
  }
  json.update({{"auto_mapping", nullptr},
               {"bias", config.bias},
               {"inference_mode", true},
               {"layers_pattern", list_or_null(config.layers_pattern)},
               {"layers_to_transform", list_or_null(config.layers_to_transform)},
               {"modules_to_save", list_or_null(config.modules_to_save)},
               {"peft_type", config.peft_type},
               {"revision", nullptr},
               {"task_type", config.task_type.empty() ? Json() : Json(config.task_type)}});
  if (!config.excluded.empty()) json["exclude_modules"] = pattern_json(config.excluded);
  return json;
}

Result<AdapterConfig> check(AdapterConfig config) {
  if (!config.is_lora() && config.peft_type != "ADALORA") {
    if (config.bias != "none")
      return error("\"bias\" is \"{}\", which hone does not support with {}", config.bias, config.peft_type);
    return config;
  }
  if (config.rank < 1 || config.rank > (1 << 20)) return error("\"r\" is {}, expected a positive rank", config.rank);
  for (const auto& [name, rank] : config.rank_pattern)
    if (rank < 1) return error("\"rank_pattern\" gives \"{}\" the rank {}", name, rank);
  if (config.init == "loftq" && ((config.loftq_bits != 4 && config.loftq_bits != 8) || config.loftq_iterations < 1))
    return error("\"loftq_config\" asks for {} bits and {} rounds, expected 4 or 8 bits and a positive number of rounds",
                 config.loftq_bits, config.loftq_iterations);
  if (!std::isfinite(config.alpha)) return error("\"lora_alpha\" is not a finite number");
  if (config.bias != "none" && config.bias != "all" && config.bias != "lora_only")
    return error("\"bias\" is \"{}\", expected none, all or lora_only", config.bias);
  return config;
}

}  // namespace

double AdapterConfig::scale(int64_t layer_rank, double layer_alpha) const {
  return layer_alpha / (rslora ? std::sqrt(static_cast<double>(layer_rank)) : static_cast<double>(layer_rank));
}

Result<AdapterConfig> parse_adapter_config(std::string_view text) {
  auto parsed = parse_json(text);
  if (!parsed) return error("{}", parsed.error());
  const Json& json = *parsed;
  if (!json.is_object()) return error("expected an object");
  for (const char* key : kUnsupported)
    if (json.contains(key) && is_used(json[key])) return error("\"{}\" is used, which hone does not support", key);

  AdapterConfig config;
  Fields fields(json);
  config.is_swift_tuner = !json.contains("peft_type") && json.contains("swift_type");
  config.peft_type.clear();
  fields.read(config.is_swift_tuner ? "swift_type" : "peft_type", config.peft_type);
  if (config.peft_type.empty()) return error("it has no \"peft_type\"");
  fields.read("base_model_name_or_path", config.base_model);
  fields.read("bias", config.bias);
  fields.read_pattern("target_modules", config.targets);
  fields.read_pattern("exclude_modules", config.excluded);
  fields.read_list("modules_to_save", config.modules_to_save);
  fields.read_list("layers_to_transform", config.layers_to_transform);
  fields.read_list("layers_pattern", config.layers_pattern);
  fields.read("task_type", config.task_type);
  if (config.is_lora() || config.peft_type == "ADALORA") {
    fields.read("r", config.rank);
    fields.read("lora_alpha", config.alpha);
    fields.read("lora_dropout", config.dropout);
    fields.read("use_rslora", config.rslora);
    fields.read("use_dora", config.dora);
    fields.read_init(config.init);
    fields.read_loftq(config);
  }
  if (config.is_lora()) {
    fields.read_list("target_parameters", config.target_parameters);
    fields.read_map("rank_pattern", config.rank_pattern);
    fields.read_map("alpha_pattern", config.alpha_pattern);
  } else {
    config.extra_fields = json;
    for (const char* key : kCommonKeys) config.extra_fields.erase(key);
  }
  if (!fields.problem().empty()) return error("{}", fields.problem());
  return check(std::move(config));
}

Json to_json(const AdapterConfig& config) {
  Json json = config.is_lora() || config.peft_type == "ADALORA" ? lora_json(config) : common_json(config);
  json.update(config.extra_fields);
  return json;
}

}  // namespace hone::io
