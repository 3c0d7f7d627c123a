// What config.json of a tiny model that sees pictures says besides its text.
#pragma once
#include "hone/base/json.h"

namespace hone::model {

// For architectures with a tower, whose language model is 32 wide with heads of 8; nothing for others.
inline Json vision_fields(const std::string& architecture) {
  if (architecture.find("VL") == std::string::npos) return Json::object();
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
  if (!intern) fields["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}};
  return fields;
}

}  // namespace hone::model
