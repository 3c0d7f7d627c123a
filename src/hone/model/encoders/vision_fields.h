// Reads fields of vision_config for all families; errors name the field.
#pragma once
#include <string>

#include "hone/model/encoders/vision_config.h"

namespace hone::model {

[[noreturn]] void refuse_tower(const std::string& what);
void require_value(const Json& hf, const char* field, const Json& expected);
// A number, or one for each side, which are equal.
int64_t side_of(const Json& hf, const char* field, int64_t otherwise);
// Sizes of an image tower under the names of transformers' own towers; its outputs are `text_width` wide.
VisionConfig picture_tower(const Json& hf, int64_t text_width);
void check_tower_sizes(const VisionConfig& config);

}  // namespace hone::model
