// Granite: Llama's block with multipliers on embeddings, attention, residuals and logits.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig granite_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.attention.qkv_bias = config.attention.output_bias = flag_or(hf, "attention_bias", false);
  config.mlp_bias = flag_or(hf, "mlp_bias", false);
  config.attention.scale = number_or(hf, "attention_multiplier", 1);
  config.embedding_scale = number_or(hf, "embedding_multiplier", 1);
  config.residual_scale = number_or(hf, "residual_multiplier", 1);
  const double divisor = number_or(hf, "logits_scaling", 1);
  if (!(divisor > 0)) throw UserError(ExitCode::bad_checkpoint, "\"logits_scaling\" is not above 0");
  config.logits_scale = 1 / divisor;
  return config;
}

}  // namespace

const Family& granite_family() {
  static const Family family{"granite", {"GraniteForCausalLM"}, granite_config};
  return family;
}

}  // namespace hone::model
