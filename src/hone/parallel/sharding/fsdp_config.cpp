// Translates the settings of FSDP 1 and 2, as transformers, accelerate and ms-swift write them.
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "hone/base/error.h"
#include "hone/base/strings/lower_case.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::parallel {
namespace {

constexpr std::string_view kFsdpKeys =
    "fsdp_version, sharding_strategy, reshard_after_forward, offload_params, backward_prefetch, auto_wrap_policy, "
    "min_num_params, mixed_precision_policy, activation_checkpointing or activation_cpu_offload";

[[noreturn]] void wrong(const std::string& what, const std::string& expected) {
  throw UserError(ExitCode::usage, fmt::format("fsdp: {}; expected {}", what, expected), "correct or remove that setting");
}

// true, "true", "True", 1
bool truth(const std::string& key, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  auto text = lower_case(value.is_string() ? value.get<std::string>() : value.dump());
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

// Known keys without effect, and why.
const char* settled_reason(std::string_view key) {
  static constexpr const char *kUnits = "each decoder block is a unit", *kLoading = "weights are read through a memory map",
                              *kXla = "there is no XLA here";
  static const std::map<std::string_view, const char*> reasons = {{"transformer_layer_cls_to_wrap", kUnits},
                                                                  {"ignored_modules", kUnits},
                                                                  {"forward_prefetch", "the next unit is always gathered ahead"},
                                                                  {"limit_all_gathers", "one unit is gathered ahead"},
                                                                  {"use_orig_params", "parameters keep their shapes and names"},
                                                                  {"sync_module_states", kLoading},
                                                                  {"cpu_ram_efficient_loading", kLoading},
                                                                  {"state_dict_type", "weights are saved consolidated"},
                                                                  {"reduce_scatter_unused", "unused parameters have no gradient"},
                                                                  {"xla", kXla},
                                                                  {"xla_fsdp_settings", kXla},
                                                                  {"xla_fsdp_v2", kXla},
                                                                  {"xla_fsdp_grad_ckpt", kXla}};
  const auto found = reasons.find(key);
  return found == reasons.end() ? nullptr : found->second;
}

void ignore(ShardingRequest& made, const std::string& key, const char* reason) {
  made.without_effect.push_back(key);
  made.notes.push_back(fmt::format("fsdp: {} has no effect: {}", key, reason));
}

// The reduce dtype of gradients is read here; the compute dtype comes from the run's own options.
void apply_precision(ShardingRequest& made, const Json& policy) {
  made.notes.push_back("fsdp: the type to compute in is taken from the run's own options");
  if (!policy.is_object() || !policy.contains("reduce_dtype") || policy["reduce_dtype"].is_null()) return;
  auto word =
      policy["reduce_dtype"].is_string() ? lower_case(policy["reduce_dtype"].get<std::string>()) : policy["reduce_dtype"].dump();
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

// A number, or the text of one, as launchers pass it on.
int64_t parameter_count(const Json& value) {
  const auto parsed = value.is_string() ? parse_json(value.get<std::string>()) : Result<Json>(value);
  const double count = parsed && parsed->is_number() ? parsed->get<double>() : -1;
  if (!(count >= 0 && count < 1e18) || count != std::floor(count))
    wrong(fmt::format("min_num_params is {}", value.dump()), "a number of parameters");
  return static_cast<int64_t>(count);
}

// As in accelerate, the policy decides whether min_num_params matters.
void apply_wrap_policy(ShardingRequest& made, const Json& value) {
  constexpr int64_t kUnitSizeOfAccelerate = 100'000'000;
  const auto policy = lower_case(value.is_string() ? value.get<std::string>() : value.dump());
  auto& size = made.sharding.unit_size;
  if (policy == "size_based_wrap" && size == 0)
    size = kUnitSizeOfAccelerate;
  else if (policy == "transformer_based_wrap" && size > 0)
    size = 0, ignore(made, "min_num_params", "each decoder block is a unit with TRANSFORMER_BASED_WRAP");
  else if (policy == "no_wrap")
    ignore(made, "auto_wrap_policy", "each decoder block is a unit");
  else if (policy != "size_based_wrap" && policy != "transformer_based_wrap")
    wrong(fmt::format("auto_wrap_policy is {}", value.dump()), "TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP");
}

void apply_key(ShardingRequest& made, const std::string& key, const Json& value) {
  auto& sharding = made.sharding;
  if (key == "version") {
    if (value != 1 && value != 2 && value != "1" && value != "2") wrong(fmt::format("version is {}", value.dump()), "1 or 2");
  } else if (key == "sharding_strategy") {
    auto word = lower_case(value.is_string() ? value.get<std::string>() : value.dump());
    if (!apply_strategy(made, word))
      wrong(fmt::format("sharding_strategy is {}", value.dump()),
            "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2");
  } else if (key == "reshard_after_forward") {
    // FSDP 2's setting; the name of a strategy is allowed too.
    if (value.is_string() && apply_strategy(made, lower_case(value.get<std::string>()))) return;
    sharding.reshard_after_forward = truth(key, value);
  } else if (key == "offload_params" || key == "cpu_offload") {
    sharding.offload_parameters = sharding.offload_optimizer = truth(key, value);
  } else if (key == "backward_prefetch" || key == "backward_prefetch_policy") {
    const auto word = lower_case(value.is_string() ? value.get<std::string>() : value.dump());
    if (word == "no_prefetch" || word == "none") sharding.prefetch = false;
  } else if (key == "min_num_params") {
    sharding.unit_size = parameter_count(value);
  } else if (key == "activation_checkpointing") {
    made.recompute = truth(key, value);
  } else if (key == "activation_cpu_offload") {
    made.offload_activations = truth(key, value);
    made.recompute = made.recompute || made.offload_activations;
  } else if (key == "mixed_precision_policy") {
    apply_precision(made, value);
  } else if (const auto* reason = settled_reason(key)) {
    ignore(made, key, reason);
  } else if (key != "auto_wrap_policy") {  // which is applied last
    made.unknown.push_back(fmt::format("{}; expected {}", key, kFsdpKeys));
  }
}

}  // namespace

ShardingRequest read_fsdp(const std::string& words, const Json& config) {
  ShardingRequest made;
  made.sharding.stage = 3;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    word = lower_case(word);
    if (word == "fsdp2")
      made.recompute = true;  // ms-swift's preset uses activation checkpointing
    else if (word == "offload")
      made.sharding.offload_parameters = made.sharding.offload_optimizer = true;
    else if (word == "false")
      made.sharding.stage = 0;
    else if (word != "auto_wrap" && word != "true" && !apply_strategy(made, word))
      throw UserError(
          ExitCode::usage, fmt::format("`fsdp` is \"{}\"", words),
          "expected fsdp2; full_shard, shard_grad_op, no_shard, hybrid_shard or hybrid_shard_zero2, with auto_wrap and "
          "offload; or JSON with fsdp and fsdp_config, inline or in a file");
  }
  if (config.is_null()) return made;
  if (!config.is_object()) wrong(fmt::format("its configuration is {}", config.type_name()), "an object");
  Json policy;
  for (const auto& [name, value] : config.items()) {
    const auto key = name.starts_with("fsdp_") ? name.substr(5) : name;
    if (!value.is_null()) apply_key(made, key, value);
    if (key == "auto_wrap_policy") policy = value;
  }
  if (!policy.is_null()) apply_wrap_policy(made, policy);
  return made;
}

}  // namespace hone::parallel
