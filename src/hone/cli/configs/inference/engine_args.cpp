#include "hone/cli/configs/inference/engine_args.h"

#include <functional>
#include <map>

#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"

namespace hone::cli {
namespace {

UserError wrong_setting(const Arg<Json>& option, const std::string& key, const Json& value, std::string_view expected) {
  return UserError(ExitCode::usage, fmt::format("{}: {} is {}; expected {}", option.flag(), key, value.dump(), expected));
}

Json settings_object(const Arg<Json>& option) {
  auto settings = *option;
  if (settings.is_null()) return Json::object();
  if (!settings.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", option.flag(), settings.dump()), "expected an object");
  return settings;
}

using engine::EngineConfig;
using Apply = std::function<bool(EngineConfig&, const Json&)>;  // false: the value has the wrong type

Apply whole_number(int64_t EngineConfig::*field) {
  return [field](EngineConfig& config, const Json& value) {
    bool fits = value.is_number_integer() && value.get<int64_t>() > 0;
    if (fits) config.*field = value.get<int64_t>();
    return fits;
  };
}

// GPU kernels read four positions of a block at a time.
bool set_block_size(EngineConfig& config, const Json& value) {
  bool fits = value.is_number_integer() && value.get<int64_t>() > 0 && value.get<int64_t>() % 4 == 0;
  if (fits) config.block_size = value.get<int64_t>();
  return fits;
}

Apply truth(bool EngineConfig::*field, bool negated = false) {
  return [=](EngineConfig& config, const Json& value) {
    if (value.is_boolean()) config.*field = value.get<bool>() != negated;
    return value.is_boolean();
  };
}

bool set_memory(EngineConfig& config, const Json& value) {
  bool fits = value.is_number() && value.get<double>() > 0 && value.get<double>() <= 1;
  if (fits) config.gpu_memory_utilization = value.get<double>();
  return fits;
}

// These are read where models are placed and loaded.
bool is_count(EngineConfig&, const Json& value) { return value.is_number_integer() && value.get<int64_t>() > 0; }
bool is_name(EngineConfig&, const Json& value) { return value.is_string(); }

using Arguments = std::map<std::string, Apply>;

const Arguments& engine_arguments() {
  static const Arguments arguments{
      {"block_size", set_block_size},
      {"data_parallel_size", is_count},
      {"enable_prefix_caching", truth(&EngineConfig::enable_prefix_caching)},
      {"enforce_eager", truth(&EngineConfig::use_cuda_graphs, /*negated=*/true)},
      {"gpu_memory_utilization", set_memory},
      {"kv_cache_dtype", is_name},
      {"max_model_len", whole_number(&EngineConfig::max_model_len)},
      {"max_num_batched_tokens", whole_number(&EngineConfig::max_num_batched_tokens)},
      {"max_num_seqs", whole_number(&EngineConfig::max_num_seqs)},
      {"pipeline_parallel_size", is_count},
      {"quantization", is_name},
      {"tensor_parallel_size", is_count},
  };
  return arguments;
}

// Another engine's names of the same settings.
using Names = std::map<std::string, std::string>;

// SGLang's; one of them is negated.
const Names& sglang_names() {
  static const Names names{
      {"chunked_prefill_size", "max_num_batched_tokens"},
      {"context_length", "max_model_len"},
      {"disable_cuda_graph", "enforce_eager"},
      {"dp_size", "data_parallel_size"},
      {"kv_cache_dtype", "kv_cache_dtype"},
      {"max_running_requests", "max_num_seqs"},
      {"mem_fraction_static", "gpu_memory_utilization"},
      {"page_size", "block_size"},
      {"pp_size", "pipeline_parallel_size"},
      {"quantization", "quantization"},
      {"tp_size", "tensor_parallel_size"},
  };
  return names;
}

// `own` and vLLM's arguments under other `names`.
Arguments with_names(Arguments own, const Names& names) {
  for (const auto& [name, vllm] : names) own.emplace(name, engine_arguments().at(vllm));
  return own;
}

// The setting `key`, by its name or by vLLM's; null if absent.
Json named_setting(const Json& settings, const Names& names, const std::string& key) {
  for (const auto& [name, vllm] : names)
    if (vllm == key && settings.contains(name)) return settings[name];
  return settings.value(key, Json());
}

const Arguments& sglang_arguments() {
  static const Arguments arguments =
      with_names({{"disable_radix_cache", truth(&EngineConfig::enable_prefix_caching, /*negated=*/true)}}, sglang_names());
  return arguments;
}

bool is_cache_bits(EngineConfig&, const Json& value) { return value == 0 || value == 4 || value == 8; }

// ms-swift's engines take these besides vLLM's: LMDeploy's, and the batch size of transformers.
const Names& sample_names() {
  static const Names names{
      {"cache_max_entry_count", "gpu_memory_utilization"},
      {"max_batch_size", "max_num_seqs"},
      {"session_len", "max_model_len"},
      {"tp", "tensor_parallel_size"},
  };
  return names;
}

const Arguments& sample_arguments() {
  static const Arguments arguments = [] {
    Arguments own = engine_arguments();
    own.emplace("quant_policy", is_cache_bits);
    return with_names(std::move(own), sample_names());
  }();
  return arguments;
}

// engine_kwargs of `sample`. With a server it describes the server, which is no engine of this process.
Json sample_settings(const Options& options) {
  const SampleArguments args(options);
  if (!args.engine_kwargs.has_value() || *args.sampler_type == "distill") return Json::object();
  auto settings = settings_object(args.engine_kwargs);
  if (settings.erase("torch_dtype"))
    log::warn_once(fmt::format("{}: torch_dtype is ignored, as in ms-swift; use `torch_dtype`", args.engine_kwargs.flag()));
  return settings;
}

void apply_settings(const Arg<Json>& option, const Json& settings, const Arguments& arguments, EngineConfig& config) {
  for (const auto& [key, value] : settings.items()) {
    auto found = arguments.find(key);
    if (found == arguments.end()) {
      std::string known;
      for (const auto& [name, apply] : arguments) known += (known.empty() ? "" : ", ") + name;
      throw UserError(ExitCode::usage, fmt::format("{} requests {}, which hone's engine does not support", option.flag(), key),
                      "expected " + known);
    }
    if (!found->second(config, value)) throw wrong_setting(option, key, value, "a value of that argument's kind");
  }
}

}  // namespace

void apply_speculation(const Options& options, engine::EngineConfig& config) {
  const EngineArguments args(options);
  if (auto settings = settings_object(args.vllm_speculative_config); !settings.empty()) {
    auto method = settings.value("method", Json()), tokens = settings.value("num_speculative_tokens", Json());
    if (method != "ngram")
      throw wrong_setting(args.vllm_speculative_config, "method", method,
                          "\"ngram\": guesses come from the text so far, drafts of a second model are not in this version");
    if (!tokens.is_number_integer() || tokens.get<int64_t>() < 1)
      throw wrong_setting(args.vllm_speculative_config, "num_speculative_tokens", tokens, "a number above 0");
    config.speculative_tokens = tokens.get<int64_t>();
  }
  if (!args.sglang_speculative_algorithm.has_value()) return;
  if (*args.sglang_speculative_algorithm != "NGRAM")
    throw UserError(ExitCode::usage,
                    fmt::format("{} is {}", args.sglang_speculative_algorithm.flag(), *args.sglang_speculative_algorithm),
                    "expected NGRAM; drafts of a second model are not in this version");
  constexpr int64_t kGuessed = 4;
  config.speculative_tokens = args.sglang_speculative_num_draft_tokens.value_or(kGuessed);
}

Json engine_argument(const Options& options, const std::string& key) {
  const EngineArguments args(options);
  auto value = named_setting(sample_settings(options), sample_names(), key);
  if (value.is_null()) value = settings_object(args.vllm_engine_kwargs).value(key, Json());
  if (value.is_null()) value = named_setting(settings_object(args.sglang_config), sglang_names(), key);
  return value;
}

int64_t engine_integer(const Options& options, const Arg<int64_t>& option, const std::string& key) {
  auto value = engine_argument(options, key);
  return value.is_number_integer() && value.get<int64_t>() > 0 ? value.get<int64_t>() : *option;
}

void apply_engine_args(const Options& options, engine::EngineConfig& config) {
  const EngineArguments args(options);
  apply_settings(args.vllm_engine_kwargs, settings_object(args.vllm_engine_kwargs), engine_arguments(), config);
  apply_settings(args.sglang_config, settings_object(args.sglang_config), sglang_arguments(), config);
  apply_settings(SampleArguments(options).engine_kwargs, sample_settings(options), sample_arguments(), config);
}

}  // namespace hone::cli
