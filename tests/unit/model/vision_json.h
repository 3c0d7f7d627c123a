// What config.json of a tiny model that sees pictures says besides its text.
#pragma once
#include "hone/base/json.h"

namespace hone::model {

// For architectures with a tower, whose language model is 32 wide with heads of 8; nothing for others.
inline Json vision_fields(const std::string& architecture) {
  const Json siglip{{"hidden_size", 32},        {"intermediate_size", 48}, {"num_hidden_layers", 2},
                    {"num_attention_heads", 2}, {"patch_size", 14},        {"image_size", 56}};
  if (architecture == "Gemma3ForConditionalGeneration")
    return {{"head_dim", 8}, {"mm_tokens_per_image", 4}, {"vision_config", siglip}};
  if (architecture == "Ovis2_5") return {{"head_dim", 8}, {"visual_vocab_size", 20}, {"vit_config", siglip}};
  auto has = [&](const char* part) { return architecture.find(part) != std::string::npos; };
  const bool qwen3_5 = has("Qwen3_5") && has("ConditionalGeneration");
  if (!has("VL") && !has("Omni") && !qwen3_5) return Json::object();
  const bool intern = architecture.starts_with("Intern");
  Json fields{{"head_dim", 8},
              {"model_type", "qwen2"},  // of the language model inside
              {"vision_config",
               {{"depth", 2},
                {"num_heads", 2},
                {"embed_dim", 32},
                {"hidden_size", 32},
                {"out_hidden_size", 32},
                {"intermediate_size", 48},
                {"num_hidden_layers", 2},
                {"num_attention_heads", 2},
                {"patch_size", 14},
                {"image_size", 56},
                {"num_position_embeddings", 9},
                {"deepstack_visual_indexes", {0}}}}};
  if (qwen3_5) fields["partial_rotary_factor"] = 1.0;  // three axes need three frequencies
  if (!intern) fields["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}};
  return fields;
}

// An Omni model keeps all that in its thinker, beside an audio tower.
inline Json with_thinker(Json json, const std::string& architecture) {
  if (architecture.find("Omni") == std::string::npos) return json;
  const Json vision = json["vision_config"], architectures = json["architectures"];
  json.erase("vision_config");
  const Json audio{{"encoder_layers", 2}, {"d_model", 16},      {"encoder_ffn_dim", 24},      {"encoder_attention_heads", 2},
                   {"output_dim", 32},    {"num_mel_bins", 16}, {"downsample_hidden_size", 4}};
  return {{"architectures", architectures},
          {"thinker_config", {{"text_config", json}, {"vision_config", vision}, {"audio_config", audio}}}};
}

}  // namespace hone::model
