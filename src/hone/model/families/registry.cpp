#include "hone/model/families/family.h"

namespace hone::model {

// Listed explicitly: the linker drops self-registering objects from a static library.
const std::vector<Family>& families() {
  static const std::vector<Family> list{
      qwen2_family(),
      qwen3_family(),
      llama_family(),
      mistral_family(),
      qwen2_moe_family(),
      qwen3_moe_family(),
      mixtral_family(),
      seed_oss_family(),
      gemma3_family(),
      granite_family(),
      qwen2_vl_family(),
      qwen2_5_vl_family(),
      qwen3_vl_family(),
      qwen3_vl_moe_family(),
      internvl_family(),
      internvl_chat_family(),
      qwen2_5_omni_family(),
      qwen3_omni_moe_family(),
      gemma3_vision_family(),
      ovis2_5_family(),
      qwen3_next_family(),
      qwen3_5_text_family(),
      qwen3_5_moe_text_family(),
      qwen3_5_family(),
      qwen3_5_moe_family(),
  };
  return list;
}

}  // namespace hone::model
