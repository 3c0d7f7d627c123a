// Translates the settings of FSDP 1 and 2, as transformers, accelerate and ms-swift write them.
#include <algorithm>
#include <set>
#include <sstream>

#include "hone/base/error.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::parallel {
namespace {

[[noreturn]] void wrong(const std::string& what, const std::string& expected) {
  throw UserError(ExitCode::usage, fmt::format("fsdp: {}; expected {}", what, expected));
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// true, "true", "True", 1
bool truth(const std::string& key, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  auto text = lower(value.is_string() ? value.get<std::string>() : value.dump());
  if (text == "true" || text == "1" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "no" || text == "none" || text == "null") return false;
  wrong(fmt::format("{} is {}", key, value.dump()), "true or false");
}

bool apply_strategy(ShardingRequest& made, const std::string& word) {
  auto& sharding = made.sharding;
  if (word == "full_shard" || word == "1")
    sharding.stage = 3;
  else if (word == "shard_grad_op" || word == "2")
    sharding.stage = 3, sharding.reshard_after_forward = false;
  else if (word == "no_shard" || word == "3")
    sharding.stage = 0;
  else if (word == "hybrid_shard" || word == "4")
    sharding.stage = 3, made.hybrid_shard = true;
  else if (word == "hybrid_shard_zero2" || word == "5")
    sharding.stage = 3, made.hybrid_shard = true, sharding.reshard_after_forward = false;
  else
    return false;
  return true;
}

// Known keys without effect: blocks are the wrapping units, checkpoints are unsharded, loading uses a memory map.
const std::set<std::string>& settled_keys_of_fsdp() {
  static const std::set<std::string> keys = {"version",
                                             "auto_wrap_policy",
                                             "transformer_layer_cls_to_wrap",
                                             "backward_prefetch_policy",
                                             "limit_all_gathers",
                                             "use_orig_params",
                                             "sync_module_states",
                                             "cpu_ram_efficient_loading",
                                             "state_dict_type",
                                             "xla",
                                             "xla_fsdp_settings",
                                             "xla_fsdp_v2",
                                             "xla_fsdp_grad_ckpt",
                                             "ignored_modules",
                                             "reduce_scatter_unused"};
  return keys;
}

// The reduce dtype of gradients is read here; the compute dtype comes from the run's own options.
void apply_precision(ShardingRequest& made, const Json& policy) {
  made.notes.push_back("fsdp: the type to compute in is taken from the run's own options");
  if (!policy.is_object() || !policy.contains("reduce_dtype") || policy["reduce_dtype"].is_null()) return;
  auto word =
      policy["reduce_dtype"].is_string() ? lower(policy["reduce_dtype"].get<std::string>()) : policy["reduce_dtype"].dump();
  if (word.starts_with("torch.")) word.erase(0, 6);
  if (word == "bf16" || word == "bfloat16")
    made.sharding.reduce_type = at::kBFloat16;
  else if (word == "fp16" || word == "float16")
    made.sharding.reduce_type = at::kHalf;
  else if (word == "fp32" || word == "float32")
    made.sharding.reduce_type = at::kFloat;
  else
    wrong(fmt::format("mixed_precision_policy.reduce_dtype is {}", policy["reduce_dtype"].dump()),
          "bfloat16, float16 or float32");
}

void apply_key(ShardingRequest& made, const std::string& key, const Json& value) {
  auto& sharding = made.sharding;
  if (key == "sharding_strategy") {
    auto word = lower(value.is_string() ? value.get<std::string>() : value.dump());
    if (!apply_strategy(made, word))
      wrong(fmt::format("sharding_strategy is {}", value.dump()),
            "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2");
  } else if (key == "reshard_after_forward") {
    // FSDP 2's setting; the name of a strategy is allowed too.
    if (value.is_string() && apply_strategy(made, lower(value.get<std::string>()))) return;
    sharding.reshard_after_forward = truth(key, value);
  } else if (key == "offload_params" || key == "cpu_offload") {
    sharding.offload_parameters = sharding.offload_optimizer = truth(key, value);
  } else if (key == "forward_prefetch" || key == "backward_prefetch") {
    bool off =
        value.is_string() && (lower(value.get<std::string>()) == "no_prefetch" || lower(value.get<std::string>()) == "none");
    if (key == "backward_prefetch" && off) sharding.prefetch = false;
  } else if (key == "min_num_params") {
    if (!value.is_number_integer() || value < 0)
      wrong(fmt::format("min_num_params is {}", value.dump()), "a number of parameters");
    sharding.unit_size = value.get<int64_t>();
  } else if (key == "activation_checkpointing") {
    made.recompute = truth(key, value);
  } else if (key == "activation_cpu_offload") {
    made.offload_activations = truth(key, value);
    made.recompute = made.recompute || made.offload_activations;
  } else if (key == "mixed_precision_policy") {
    apply_precision(made, value);
  } else if (!settled_keys_of_fsdp().contains(key)) {
    made.unknown.push_back(key);
  }
}

}  // namespace

ShardingRequest read_fsdp(const std::string& words, const Json& config) {
  ShardingRequest made;
  made.sharding.stage = 3;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    word = lower(word);
    if (word == "fsdp2")
      made.recompute = true;  // ms-swift's preset uses activation checkpointing
    else if (word == "offload")
      made.sharding.offload_parameters = made.sharding.offload_optimizer = true;
    else if (word != "auto_wrap" && word != "true" && !apply_strategy(made, word))
      wrong(fmt::format("\"{}\"", word),
            "full_shard, shard_grad_op, no_shard, hybrid_shard or hybrid_shard_zero2, with auto_wrap and offload");
  }
  if (config.is_null()) return made;
  if (!config.is_object()) wrong(fmt::format("its configuration is {}", config.type_name()), "an object");
  for (const auto& [key, value] : config.items())
    if (!value.is_null()) apply_key(made, key.starts_with("fsdp_") ? key.substr(5) : key, value);
  return made;
}

}  // namespace hone::parallel
