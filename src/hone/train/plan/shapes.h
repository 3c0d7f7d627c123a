// config.json of well-known models, for planning before a download.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::train {

// By the last part of a hub id, without what follows the size: "Qwen/Qwen2.5-7B-Instruct" is "qwen2.5-7b".
std::optional<Json> known_shape(const std::string& model);
std::vector<std::string> known_shape_names();

}  // namespace hone::train
