#include "hone/cli/configs/inference/generation_config.h"

#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/export/model_file.h"
#include "hone/cli/configs/inference/engine_args.h"
#include "hone/cli/configs/inference/engine_quantization.h"
#include "hone/cli/configs/model_config.h"
#include "hone/engine/constraints/compiler.h"
#include "hone/io/peft.h"

namespace hone::cli {
namespace {

// The sampling parameters of a model's generation_config.json, with the defaults of transformers.
engine::SamplingParams sampling_of(const ModelFile& file) {
  engine::SamplingParams sampling;
  sampling.temperature = file.number("temperature", 1.0);
  sampling.top_p = file.number("top_p", 1.0);
  sampling.top_k = std::max<int64_t>(0, static_cast<int64_t>(file.number("top_k", 50)));
  sampling.min_p = file.number("min_p", 0.0);
  sampling.repetition_penalty = file.number("repetition_penalty", 1.0);
  return sampling;
}

int64_t default_max_tokens(const fs::path& folder, const ModelFile& file) {
  if (auto limit = file.integer("max_new_tokens", 0); limit > 0) return limit;
  return ModelFile(folder / "config.json").integer("max_position_embeddings", 2048);
}

int64_t max_completion_tokens(const GenerationArguments& args, const fs::path& folder, const ModelFile& file) {
  if (args.max_new_tokens.has_value() && *args.max_new_tokens > 0) return *args.max_new_tokens;
  return default_max_tokens(folder, file);
}

// LLaMA-Factory has a separate default for evaluation.
int64_t beams_of(const Options& options) {
  const auto own = TrainingArguments(options).generation_num_beams;
  return own.has_value() ? *own : *GenerationArguments(options).num_beams;
}

// ms-swift's native engine batches max_batch_size requests, vLLM-like engines vllm_max_num_seqs.
bool batch_size_limits(const GenerationArguments& args) {
  static constexpr std::string_view kServers[] = {"vllm", "sglang", "lmdeploy"};
  bool as_server = args.verb() & kServing || std::ranges::count(kServers, *args.infer_backend);
  return args.max_batch_size.exists() && *args.max_batch_size > 0 && (!as_server || args.max_batch_size.is_set());
}

// The file with sampling settings: a given one, or the model's own, which is optional.
fs::path sampling_file(const TrainingArguments& args, const fs::path& model_folder) {
  if (!args.generation_config.has_value()) return model_folder / "generation_config.json";
  fs::path asked = *args.generation_config;
  if (fs::is_directory(asked)) asked /= "generation_config.json";
  if (!fs::is_regular_file(asked))
    throw UserError(ExitCode::usage,
                    fmt::format("{} is {}; there is no such file", args.generation_config.flag(), asked.string()));
  return asked;
}

}  // namespace

engine::SamplingParams default_sampling(const fs::path& model_folder, uint64_t seed) {
  const ModelFile file(model_folder / "generation_config.json");
  auto sampling = sampling_of(file);
  if (!file.flag("do_sample", false)) sampling.temperature = 0;
  sampling.seed = seed;
  sampling.max_tokens = default_max_tokens(model_folder, file);
  return sampling;
}

engine::SamplingParams sampling_params(const Options& options, const fs::path& model_folder) {
  const GenerationArguments generation_args(options);
  const ModelArguments model_args(options);
  if (generation_args.max_new_tokens.has_value() && *generation_args.max_new_tokens == 0)
    throw UserError(ExitCode::usage, fmt::format("{} is 0", generation_args.max_new_tokens.flag()),
                    "expected 1 or more; -1 fills the model's context");
  ModelFile file(sampling_file(TrainingArguments(options), model_folder));
  auto sampling = sampling_of(file);
  sampling.temperature = generation_args.temperature.value_or(sampling.temperature);
  sampling.top_p = generation_args.top_p.value_or(sampling.top_p);
  sampling.top_k = std::max<int64_t>(0, generation_args.top_k.value_or(sampling.top_k));
  sampling.min_p = generation_args.min_p.exists() ? generation_args.min_p.value_or(sampling.min_p) : 0.0;
  sampling.repetition_penalty = generation_args.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.seed = static_cast<uint64_t>(*model_args.seed);
  sampling.batch_invariant = model_args.seed.is_set();
  // ms-swift: a temperature on the command line enables sampling, 0 is greedy; without one, the model's do_sample decides.
  bool asked = generation_args.temperature.is_set() || generation_args.top_p.is_set() || generation_args.top_k.is_set();
  bool sample = generation_args.do_sample.has_value() ? *generation_args.do_sample : asked || file.flag("do_sample", false);
  if (!sample) sampling.temperature = 0;
  sampling.num_beams = beams_of(options);
  sampling.length_penalty = generation_args.length_penalty.value_or(file.number("length_penalty", 1.0));
  if (file.flag("early_stopping", false)) sampling.early_stopping = engine::EarlyStopping::yes;
  sampling.max_tokens = max_completion_tokens(generation_args, model_folder, file);
  if (generation_args.stop_words.exists()) sampling.stop = *generation_args.stop_words;
  sampling.include_stop_str_in_output = true;  // as ms-swift displays them
  sampling.skip_special_tokens = *generation_args.skip_special_tokens;
  if (*generation_args.logprobs)
    sampling.logprobs = generation_args.top_logprobs.value_or(0);
  else if (generation_args.top_logprobs.has_value())
    throw UserError(ExitCode::usage,
                    fmt::format("{} requires {} true", generation_args.top_logprobs.flag(), generation_args.logprobs.flag()));
  return sampling;
}

int64_t max_num_seqs(const Options& options) {
  const GenerationArguments args(options);
  if (!batch_size_limits(args)) return *EngineArguments(options).vllm_max_num_seqs;
  return *args.max_batch_size * beams_of(options);  // requests, each with several sequences
}

engine::EngineConfig engine_config(const Options& options) {
  const EngineArguments engine_args(options);
  const GenerationArguments generation_args(options);
  const ModelArguments model_args(options);
  engine::EngineConfig config;
  bool rounds = model_args.quant_bits.has_value() && !model_args.quant_method.has_value() && device_of(options).is_cpu();
  if (rounds) config.quant_bits = std::stoi(*model_args.quant_bits);
  if (generation_args.infer_backend.is_set() && *generation_args.infer_backend != "hone")
    log::info("{} {}: hone runs its own engine with at most {} sequences per step", generation_args.infer_backend.flag(),
              *generation_args.infer_backend,
              *(batch_size_limits(generation_args) ? generation_args.max_batch_size : engine_args.vllm_max_num_seqs));
  config.max_num_seqs = max_num_seqs(options);
  config.gpu_memory_utilization = *engine_args.vllm_gpu_memory_utilization;
  config.enable_prefix_caching = *engine_args.vllm_enable_prefix_caching;
  config.use_cuda_graphs = !engine_args.vllm_enforce_eager && !model_args.use_kt;  // graphs cannot capture experts in host memory
  config.kv_cache_dtype = cache_code(options);
  // The choices of a question share all but their last tokens, and small blocks share more of them; the CPU gathers those as
  // fast.
  if ((options.verb() & kEval) && device_of(options).is_cpu()) config.block_size = 4;
  if (engine_args.vllm_max_model_len.has_value()) config.max_model_len = *engine_args.vllm_max_model_len;
  if (auto total = max_total_length(options); total > 0)
    config.max_model_len = config.max_model_len > 0 ? std::min(config.max_model_len, total) : total;
  apply_speculation(options, config);
  apply_engine_args(options, config);
  return config;
}

int64_t max_total_length(const Options& options) {
  const GenerationArguments args(options);
  bool by_answer = args.max_new_tokens.has_value() && *args.max_new_tokens > 0;
  return by_answer ? 0 : args.generation_total_length.value_or(0);
}

std::shared_ptr<const engine::Constraint> completion_regex(const Options& options, const text::Tokenizer& tokenizer,
                                                           const std::vector<text::TokenId>& end_tokens) {
  const GenerationArguments args(options);
  if (!args.structured_outputs_regex.has_value()) return nullptr;
  return engine::ConstraintCompiler(tokenizer, end_tokens)
      .regex(*args.structured_outputs_regex)
      .or_throw(ExitCode::usage, args.structured_outputs_regex.flag());
}

void check_adapter_rank(const Options& options, const std::filesystem::path& adapter) {
  const EngineArguments args(options);
  if (!args.vllm_max_lora_rank.is_set()) return;
  auto rank = io::read_adapter_config(adapter).rank, limit = *args.vllm_max_lora_rank;
  if (rank > limit)
    throw UserError(ExitCode::usage,
                    fmt::format("{} has rank {}, {} is {}", adapter.string(), rank, args.vllm_max_lora_rank.flag(), limit),
                    fmt::format("raise it to {} or leave it out", rank));
}

void remark_other_base(const Options& options, const std::filesystem::path& adapter) {
  const ModelArguments args(options);
  auto last_part = [](std::string path) {
    while (path.ends_with('/')) path.pop_back();
    return path.substr(path.rfind('/') + 1);
  };
  const auto named = io::read_adapter_config(adapter).base_model;
  if (named.empty() || !args.model.has_value()) return;
  const auto model = *args.model;
  std::error_code ignored;
  if (last_part(named) == last_part(model) || fs::equivalent(named, model, ignored)) return;
  log::warning("{} was trained on {}, and is used with {} here; with a different model its output is meaningless",
               adapter.string(), named, model);
}

std::vector<text::TokenId> end_tokens(const fs::path& model_folder) {
  for (const char* name : {"generation_config.json", "config.json"})
    if (auto tokens = ModelFile(model_folder / name).tokens("eos_token_id")) return *tokens;
  return {};
}

}  // namespace hone::cli
