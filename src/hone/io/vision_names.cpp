#include "hone/io/vision_names.h"

#include <algorithm>

namespace hone::io {

StoredNames StoredNames::of(const Json& config) {
  StoredNames names;
  if (!config.is_object() || !config.contains("vision_config")) return names;
  const auto type = config.value("model_type", Json());
  if (type == "qwen2_vl" || type == "qwen2_5_vl")
    names.prefixes_ = {{"visual.", "model.visual."}, {"model.", "model.language_model."}};
  else if (type == "gemma3")  // files on the hub have a "vision_model" prefix; transformers 5 writes none
    names.prefixes_ = {{"language_model.model.", "model.language_model."},
                       {"language_model.lm_head.", "lm_head."},
                       {"vision_tower.vision_model.", "model.vision_tower."},
                       {"vision_tower.", "model.vision_tower."},
                       {"multi_modal_projector.", "model.multi_modal_projector."}};
  else if (type == "internvl")
    names.prefixes_ = {{"language_model.model.", "model.language_model."},
                       {"language_model.lm_head.", "lm_head."},
                       {"vision_tower.", "model.vision_tower."},
                       {"multi_modal_projector.", "model.multi_modal_projector."}};
  return names;
}

std::string StoredNames::module_name(const std::string& stored) const {
  if (std::ranges::any_of(prefixes_, [&](const Prefix& one) { return stored.starts_with(one.module); })) return stored;
  for (const auto& one : prefixes_)
    if (stored.starts_with(one.stored)) return std::string(one.module) + stored.substr(one.stored.size());
  return stored;
}

std::string StoredNames::stored_name(const std::string& module) const {
  for (const auto& one : prefixes_)
    if (module.starts_with(one.module)) return std::string(one.stored) + module.substr(one.module.size());
  return module;
}

std::vector<TensorSource> StoredNames::stored(std::vector<TensorSource> sources) const {
  for (auto& source : sources) source.name = stored_name(source.name);
  return sources;
}

}  // namespace hone::io
