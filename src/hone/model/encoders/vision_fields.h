// Fields of vision_config, read alike for every family: their errors say which one is wrong.
#pragma once
#include <string>

#include "hone/model/encoders/vision_config.h"

namespace hone::model {

[[noreturn]] void refuse_tower(const std::string& what);
void require_value(const Json& hf, const char* field, const Json& expected);
// A number, or one for each side, which are equal.
int64_t side_of(const Json& hf, const char* field, int64_t otherwise);
// Sizes of a tower of still pictures, under the names that transformers' own towers have; its rows become `text_width` wide.
VisionConfig picture_tower(const Json& hf, int64_t text_width);
void check_tower_sizes(const VisionConfig& config);

}  // namespace hone::model
