#include "hone/io/vision_names.h"

#include <string_view>

namespace hone::io {
namespace {

constexpr std::string_view kModel = "model.", kLanguage = "model.language_model.", kTower = "model.visual.",
                           kStoredTower = "visual.";

}  // namespace

bool has_vision_names(const Json& config) {
  if (!config.is_object() || !config.contains("vision_config")) return false;
  const auto type = config.value("model_type", Json());
  return type == "qwen2_vl" || type == "qwen2_5_vl";
}

std::string vision_module_name(const std::string& stored) {
  if (stored.starts_with(kStoredTower)) return std::string(kModel) + stored;
  if (!stored.starts_with(kModel) || stored.starts_with(kLanguage) || stored.starts_with(kTower)) return stored;
  return std::string(kLanguage) + stored.substr(kModel.size());
}

std::string stored_vision_name(const std::string& module) {
  if (module.starts_with(kTower)) return module.substr(kModel.size());
  if (module.starts_with(kLanguage)) return std::string(kModel) + module.substr(kLanguage.size());
  return module;
}

std::vector<TensorSource> in_stored_names(std::vector<TensorSource> sources) {
  for (auto& source : sources) source.name = stored_vision_name(source.name);
  return sources;
}

}  // namespace hone::io
