// Seed-OSS: Llama's block with biases on queries, keys and values, on the output if configured, and a separate head size.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig seed_oss_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.attention.head_dim = size_or(hf, "head_dim", 128);
  config.attention.qkv_bias = flag_or(hf, "attention_bias", true);
  config.attention.output_bias = flag_or(hf, "attention_out_bias", false);
  config.mlp_bias = flag_or(hf, "mlp_bias", false);
  return config;
}

}  // namespace

const Family& seed_oss_family() {
  static const Family family{"seed_oss", {"SeedOssForCausalLM"}, seed_oss_config};
  return family;
}

}  // namespace hone::model
