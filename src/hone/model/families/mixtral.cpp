// Mixtral: Mistral's attention, with experts in every layer; the weights of a token's experts sum to 1.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig mixtral_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.sliding_windows.assign(config.sliding_windows.size(), size_or(hf, "sliding_window", 0));
  auto& experts = config.experts;
  experts.count = required_size(hf, "num_local_experts");
  experts.num_experts_per_tok = size_or(hf, "num_experts_per_tok", 2);
  experts.width = config.intermediate_size;
  experts.norm_topk_prob = true;
  experts.router_jitter_noise = number_or(hf, "router_jitter_noise", 0);
  experts.in_layer.assign(config.sliding_windows.size(), true);
  experts.stored_as = io::kMixtralNames;
  return config;
}

}  // namespace

const Family& mixtral_family() {
  static const Family family{"mixtral", {"MixtralForCausalLM"}, mixtral_config};
  return family;
}

}  // namespace hone::model
