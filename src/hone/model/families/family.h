// A model family: its architectures and how its config.json is read. Adding one takes a file here and a line in registry.cpp.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/model/config.h"
#include "hone/model/families/text_config.h"

namespace hone::model {

struct Family {
  std::string name;
  std::vector<std::string> architectures;
  DecoderConfig (*config)(const Json& hf);
};

const std::vector<Family>& families();

// Field access whose errors name the field. For families only: they run inside parse_config, which adds the file's name.
int64_t required_size(const Json& hf, const char* field);               // a positive integer
int64_t size_or(const Json& hf, const char* field, int64_t otherwise);  // null counts as absent
double number_or(const Json& hf, const char* field, double otherwise);
bool flag_or(const Json& hf, const char* field, bool otherwise);
std::vector<int64_t> sizes_of(const Json& hf, const char* field);  // empty when absent
// Which layers `layer_types` lists as sliding-window attention; nullopt when absent.
std::optional<std::vector<bool>> listed_sliding_layers(const Json& hf, int64_t layers);
// A language model's config with a vision tower. Throws if the two do not match.
const Json& vision_config_of(const Json& hf);
void add_tower(DecoderConfig& config, VisionConfig tower);

// The fields common to Llama and its descendants.
DecoderConfig llama_like_config(const Json& hf);
// Gives the window to the layers that `layer_types` lists as sliding; without a list, to those that `slides` selects.
template <typename Rule>
void set_sliding_windows(DecoderConfig& config, const Json& hf, int64_t window, Rule slides) {
  const auto listed = listed_sliding_layers(hf, config.layers);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    config.sliding_windows[at] = (listed ? (*listed)[at] : slides(layer)) ? window : 0;
  }
}
// The fields common to the Qwen MoE families.
MoeConfig qwen_experts(const Json& hf, const DecoderConfig& config);

const Family& qwen2_family();
const Family& qwen3_family();
const Family& llama_family();
const Family& mistral_family();
const Family& qwen2_moe_family();
const Family& qwen3_moe_family();
const Family& mixtral_family();
const Family& seed_oss_family();
const Family& gemma3_family();
const Family& granite_family();
const Family& qwen2_vl_family();
const Family& qwen2_5_vl_family();
const Family& qwen3_vl_family();
const Family& qwen3_vl_moe_family();
const Family& internvl_family();
const Family& internvl_chat_family();
const Family& qwen2_5_omni_family();
const Family& qwen3_omni_moe_family();
const Family& gemma3_vision_family();
const Family& ovis2_5_family();
const Family& qwen3_next_family();
const Family& qwen3_5_text_family();
const Family& qwen3_5_moe_text_family();
const Family& qwen3_5_family();
const Family& qwen3_5_moe_family();

}  // namespace hone::model
