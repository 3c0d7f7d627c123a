#include "hone/cli/configs/inference/generation_config.h"

#include "hone/base/log.h"
#include "hone/cli/configs/export/model_file.h"
#include "hone/cli/configs/inference/engine_args.h"
#include "hone/cli/configs/inference/engine_quantization.h"
#include "hone/cli/configs/model_config.h"
#include "hone/engine/constraints/compiler.h"
#include "hone/io/peft.h"

namespace hone::cli {
namespace {

// The option when given, else the file's number, else the fallback.
double number(const Options& options, const std::string& name, const ModelFile& file, double fallback) {
  return options.has(name) ? options.real(name) : file.number(name, fallback);
}

int64_t max_completion_tokens(const Options& options, const fs::path& folder, const ModelFile& file) {
  if (options.has("max_new_tokens") && options.integer("max_new_tokens") > 0) return options.integer("max_new_tokens");
  if (auto limit = file.integer("max_new_tokens", 0); limit > 0) return limit;
  return ModelFile(folder / "config.json").integer("max_position_embeddings", 2048);
}

// LLaMA-Factory's evaluation has a number of its own.
int64_t beams_of(const Options& options) {
  bool own = options.has_option("generation_num_beams") && options.has("generation_num_beams");
  return options.integer(own ? "generation_num_beams" : "num_beams");
}

// ms-swift's own engine takes max_batch_size answers at a time, vLLM and its kind as many as vllm_max_num_seqs.
bool batch_size_limits(const Options& options) {
  static constexpr std::string_view kServers[] = {"vllm", "sglang", "lmdeploy"};
  bool as_server = options.verb() & kServing || std::ranges::count(kServers, options.text("infer_backend"));
  return options.has_option("max_batch_size") && options.integer("max_batch_size") > 0 &&
         (!as_server || options.is_set("max_batch_size"));
}

// The file with sampling settings: one that was asked for, or the model's own, which need not be there.
fs::path sampling_file(const Options& options, const fs::path& model_folder) {
  if (!options.has_option("generation_config") || !options.has("generation_config"))
    return model_folder / "generation_config.json";
  fs::path asked = options.text("generation_config");
  if (fs::is_directory(asked)) asked /= "generation_config.json";
  if (!fs::is_regular_file(asked))
    throw UserError(ExitCode::usage,
                    fmt::format("{} is {}; there is no such file", options.display_name("generation_config"), asked.string()));
  return asked;
}

}  // namespace

engine::SamplingParams sampling_params(const Options& options, const fs::path& model_folder) {
  if (options.has("max_new_tokens") && options.integer("max_new_tokens") == 0)
    throw UserError(ExitCode::usage, fmt::format("{} is 0", options.display_name("max_new_tokens")),
                    "expected 1 or more; -1 fills the model's context");
  ModelFile file(sampling_file(options, model_folder));
  engine::SamplingParams sampling;
  sampling.temperature = number(options, "temperature", file, 1.0);
  sampling.top_p = number(options, "top_p", file, 1.0);
  sampling.top_k = std::max<int64_t>(
      0, options.has("top_k") ? options.integer("top_k") : static_cast<int64_t>(number(options, "top_k", file, 50)));
  sampling.min_p = options.has_option("min_p") ? number(options, "min_p", file, 0.0) : 0.0;
  sampling.repetition_penalty = number(options, "repetition_penalty", file, 1.0);
  sampling.seed = static_cast<uint64_t>(options.integer("seed"));
  sampling.batch_invariant = options.is_set("seed");
  // ms-swift: a temperature on the command line samples, 0 is greedy; without one the model's own do_sample decides.
  bool asked = options.is_set("temperature") || options.is_set("top_p") || options.is_set("top_k");
  bool sample = options.has("do_sample") ? options.flag("do_sample") : asked || file.flag("do_sample", false);
  if (!sample) sampling.temperature = 0;
  sampling.num_beams = beams_of(options);
  sampling.length_penalty = number(options, "length_penalty", file, 1.0);
  if (file.flag("early_stopping", false)) sampling.early_stopping = engine::EarlyStopping::yes;
  sampling.max_tokens = max_completion_tokens(options, model_folder, file);
  if (options.has_option("stop_words")) sampling.stop = options.list("stop_words");
  sampling.include_stop_str_in_output = true;  // as ms-swift shows them
  sampling.skip_special_tokens = options.flag("skip_special_tokens");
  if (options.has_option("logprobs") && options.flag("logprobs"))
    sampling.logprobs = options.has("top_logprobs") ? options.integer("top_logprobs") : 0;
  else if (options.has_option("top_logprobs") && options.has("top_logprobs"))
    throw UserError(ExitCode::usage, fmt::format("{} only goes with {} true", options.display_name("top_logprobs"),
                                                 options.display_name("logprobs")));
  return sampling;
}

int64_t max_num_seqs(const Options& options) {
  if (!batch_size_limits(options)) return options.integer("vllm_max_num_seqs");
  return options.integer("max_batch_size") * beams_of(options);  // so many answers, each of them several sequences
}

engine::EngineConfig engine_config(const Options& options) {
  engine::EngineConfig config;
  bool rounds = options.has_option("quant_bits") && options.has("quant_bits") && !options.has("quant_method") &&
                device_of(options).is_cpu();
  if (rounds) config.quant_bits = std::stoi(options.text("quant_bits"));
  if (options.is_set("infer_backend") && options.text("infer_backend") != "hone")
    log::info("{} {}: hone runs its own engine with at most {} sequences per step", options.display_name("infer_backend"),
              options.text("infer_backend"),
              options.integer(batch_size_limits(options) ? "max_batch_size" : "vllm_max_num_seqs"));
  config.max_num_seqs = max_num_seqs(options);
  config.gpu_memory_utilization = options.real("vllm_gpu_memory_utilization");
  config.enable_prefix_caching = options.flag("vllm_enable_prefix_caching");
  config.use_cuda_graphs = !options.flag("vllm_enforce_eager");
  config.kv_cache_dtype = cache_code(options);
  if (options.has("vllm_max_model_len")) config.max_model_len = options.integer("vllm_max_model_len");
  if (auto total = max_total_length(options); total > 0)
    config.max_model_len = config.max_model_len > 0 ? std::min(config.max_model_len, total) : total;
  apply_speculation(options, config);
  apply_engine_args(options, config);
  return config;
}

int64_t max_total_length(const Options& options) {
  bool by_answer = options.has("max_new_tokens") && options.integer("max_new_tokens") > 0;
  return !by_answer && options.has_option("generation_total_length") && options.has("generation_total_length")
             ? options.integer("generation_total_length")
             : 0;
}

std::shared_ptr<const engine::Constraint> completion_regex(const Options& options, const text::Tokenizer& tokenizer,
                                                           const std::vector<text::TokenId>& end_tokens) {
  if (!options.has_option("structured_outputs_regex") || !options.has("structured_outputs_regex")) return nullptr;
  return engine::ConstraintCompiler(tokenizer, end_tokens)
      .regex(options.text("structured_outputs_regex"))
      .or_throw(ExitCode::usage, options.display_name("structured_outputs_regex"));
}

void check_adapter_rank(const Options& options, const std::filesystem::path& adapter) {
  if (!options.is_set("vllm_max_lora_rank")) return;
  auto rank = io::read_adapter_config(adapter).rank, limit = options.integer("vllm_max_lora_rank");
  if (rank > limit)
    throw UserError(
        ExitCode::usage,
        fmt::format("{} has rank {}, {} is {}", adapter.string(), rank, options.display_name("vllm_max_lora_rank"), limit),
        fmt::format("raise it to {} or leave it out", rank));
}

void remark_other_base(const Options& options, const std::filesystem::path& adapter) {
  auto last_part = [](std::string path) {
    while (path.ends_with('/')) path.pop_back();
    return path.substr(path.rfind('/') + 1);
  };
  const auto named = io::read_adapter_config(adapter).base_model;
  if (named.empty() || !options.has("model")) return;
  const auto model = options.text("model");
  std::error_code ignored;
  if (last_part(named) == last_part(model) || fs::equivalent(named, model, ignored)) return;
  log::warning("{} was trained on {}, and is used with {} here; where that is another model, its answers mean nothing",
               adapter.string(), named, model);
}

std::vector<text::TokenId> end_tokens(const fs::path& model_folder) {
  for (const char* name : {"generation_config.json", "config.json"})
    if (auto tokens = ModelFile(model_folder / name).tokens("eos_token_id")) return *tokens;
  return {};
}

}  // namespace hone::cli
