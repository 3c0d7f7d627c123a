// What config.json of a tiny model that sees pictures says besides its text.
#pragma once
#include "hone/base/json.h"

namespace hone::model {

// For architectures with a tower, whose language model is 32 wide with heads of 8; nothing for others.
inline Json vision_fields(const std::string& architecture) {
  if (architecture.find("VL") == std::string::npos) return Json::object();
  return {{"rope_scaling", {{"type", "mrope"}, {"mrope_section", {2, 1, 1}}}},
          {"vision_config",
           {{"depth", 1},
            {"num_heads", 2},
            {"embed_dim", 32},
            {"hidden_size", 32},
            {"out_hidden_size", 32},
            {"intermediate_size", 48}}}};
}

}  // namespace hone::model
