// Qwen2-VL and Qwen2.5-VL are stored under names older than their module tree: "visual.…" and "model.…" for what transformers
// calls "model.visual.…" and "model.language_model.…" since 4.52. Folders are read under either spelling and written under the
// older one, which transformers writes too.
#pragma once
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/io/safetensors.h"

namespace hone::io {

bool has_vision_names(const Json& config);  // config.json's content
std::string vision_module_name(const std::string& stored);
std::string stored_vision_name(const std::string& module);
std::vector<TensorSource> in_stored_names(std::vector<TensorSource> sources);

}  // namespace hone::io
