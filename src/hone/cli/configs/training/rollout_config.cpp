#include "hone/cli/configs/training/rollout_config.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/engine_args.h"
#include "hone/cli/configs/training/plugin_config.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

using train::rl::ReinforcementConfig;

void read_functions(const Options& options, ReinforcementConfig& config) {
  auto& rewards = config.rewards;
  rewards.functions = options.list("reward_funcs");
  rewards.cosine_shortest_wrong = options.real("cosine_min_len_value_wrong");
  rewards.cosine_longest_wrong = options.real("cosine_max_len_value_wrong");
  rewards.cosine_shortest_right = options.real("cosine_min_len_value_correct");
  rewards.cosine_longest_right = options.real("cosine_max_len_value_correct");
  if (options.has("cosine_max_len")) rewards.cosine_longest = options.integer("cosine_max_len");
  rewards.repetition_words = options.integer("repetition_n_grams");
  rewards.repetition_penalty = options.real("repetition_max_penalty");
  if (options.has("soft_max_length")) rewards.soft_longest = options.integer("soft_max_length");
  if (options.has("soft_cache_length")) rewards.soft_margin = options.integer("soft_cache_length");
  read_plugin_options(options, rewards);
}

void read_models(const Options& options, const train::TrainingJob& job, ReinforcementConfig& config) {
  for (const auto& plugin : options.list("reward_model_plugin"))
    if (plugin != "default")
      throw UserError(
          ExitCode::usage,
          fmt::format("{} {} would be Python, which hone does not run", options.display_name("reward_model_plugin"), plugin),
          fmt::format("serve what it does and name its address: {} http://127.0.0.1:9000/score (docs/reinforcement.md)",
                      options.display_name("reward_funcs")));
  auto adapters = options.list("reward_adapters");
  auto models = options.list("reward_model"), revisions = options.list("reward_model_revision"),
       templates = options.list("reward_template");
  for (size_t i = 0; i < models.size(); ++i) {
    train::RewardModelConfig model{.folder = hub::locate_model(models[i], i < revisions.size() ? revisions[i] : ""),
                                   .adapters = {},
                                   .load = job.load,
                                   .encode = job.encode};
    if (std::filesystem::exists(model.folder / "adapter_config.json") && !std::filesystem::exists(model.folder / "config.json"))
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{} {} holds an adapter, not a model", options.display_name("reward_model"), models[i]),
                      fmt::format("name the model it was trained on, and the adapter separately: {} MODEL {} {}",
                                  options.display_name("reward_model"), options.display_name("reward_adapters"), models[i]));
    model.load.changes = {};
    model.encode.max_length = 0;
    model.encode.template_name = i < templates.size() ? templates[i] : "";
    for (const auto& adapter : adapters) model.adapters.push_back(hub::locate_model(adapter));
    config.reward_models.push_back(std::move(model));
  }
}

int64_t reward_bits(const Options& options) {
  const auto bits = options.integer("reward_model_quantization_bit");
  if (bits != 4 && bits != 8)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("reward_model_quantization_bit"), bits),
                    "expected 4 or 8");
  return bits;
}

// reward_model_type says what reward_model names: an adapter of the model that trains, a model, or the address of one.
void read_factory_model(const Options& options, const train::TrainingJob& job, ReinforcementConfig& config) {
  const auto models = options.list("reward_model");
  if (models.empty()) return;
  if (models.size() > 1)
    throw UserError(ExitCode::usage, fmt::format("{} names {} models", options.display_name("reward_model"), models.size()),
                    "expected one");
  config.rewards.http_timeout = options.real("reward_timeout");
  config.rewards.allow_remote_rewards = options.flag("remote_rewards");
  const auto type = options.text("reward_model_type");
  if (type == "api") {
    config.rewards.score_server = models.front();
    return;
  }
  train::RewardModelConfig model{
      .folder = hub::locate_model(models.front()), .adapters = {}, .load = job.load, .encode = job.encode};
  model.load.changes = {};
  model.encode.max_length = 0;
  if (type == "full") {
    for (const auto& adapter : options.list("reward_adapters")) model.adapters.push_back(hub::locate_model(adapter));
  } else {
    model.adapters = {model.folder};
    model.folder = job.model_folder;
  }
  if (options.has("reward_model_quantization_bit"))
    model.load.changes.compression = ops::WeightQuantization{
        .code = reward_bits(options) == 8 ? ops::QuantType::int8 : ops::QuantType::nf4, .double_quant = true};
  config.reward_models.push_back(std::move(model));
}

}  // namespace

void read_sampling(const Options& options, ReinforcementConfig& config) {
  auto& sampling = config.sampling;
  sampling.temperature = options.real("temperature");
  if (!(sampling.temperature > 0))
    throw UserError(ExitCode::usage,
                    fmt::format("{} is 0: all completions of a prompt would be the same", options.display_name("temperature")),
                    "expected a number above 0");
  sampling.top_p = options.real("top_p");
  sampling.top_k = std::max<int64_t>(0, options.integer("top_k"));
  if (options.has_option("min_p") && options.has("min_p")) sampling.min_p = options.real("min_p");
  if (options.has_option("repetition_penalty") && options.has("repetition_penalty"))
    sampling.repetition_penalty = options.real("repetition_penalty");
  if (options.has_option("stop_words")) sampling.stop = options.list("stop_words");
  sampling.include_stop_str_in_output = true;
  sampling.max_tokens = options.integer("max_new_tokens");
  if (sampling.max_tokens <= 0)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.setting("max_new_tokens").where, sampling.max_tokens),
                    "expected 1 or more");
  if (uses_factory_dialect(options)) return;  // its PPO says nothing about an engine
  auto& engine = config.engine;
  engine.max_num_seqs = options.integer("vllm_max_num_seqs");
  engine.gpu_memory_utilization = options.real("vllm_gpu_memory_utilization");
  engine.enable_prefix_caching = options.flag("vllm_enable_prefix_caching");
  engine.use_cuda_graphs = !options.flag("vllm_enforce_eager");
  if (options.has("vllm_max_model_len")) engine.max_model_len = options.integer("vllm_max_model_len");
  apply_engine_args(options, engine);
  config.engine_sleeps = options.integer("sleep_level") > 0;
  if (options.flag("use_vllm") || options.has("vllm_mode"))
    log::info("completions are generated by hone's own engine, in the training processes");
  if (options.text("vllm_mode") == "server" || options.has("vllm_server_host") || options.has("vllm_server_base_url"))
    throw UserError(ExitCode::usage, "a rollout server is not in this version",
                    fmt::format("leave {} out, or say colocate", options.display_name("vllm_mode")));
}

void read_rewards(const Options& options, std::string_view method, train::TrainingJob& job, ReinforcementConfig& config) {
  if (!uses_factory_dialect(options)) read_functions(options, config);
  config.rewards.max_completion_length = config.sampling.max_tokens;
  uses_factory_dialect(options) ? read_factory_model(options, job, config) : read_models(options, job, config);
  const auto made = make_rewards(config.rewards);  // names and settings are judged now, before a model is loaded
  const auto count = made.size() + config.reward_models.size();
  if (count == 0)
    throw UserError(ExitCode::usage, fmt::format("{} needs at least one reward", method),
                    uses_factory_dialect(options)
                        ? "name it with reward_model: the adapter or folder that a run of stage: rm wrote, or an address"
                        : fmt::format("add {} accuracy format, the address of your own, or {}",
                                      options.display_name("reward_funcs"), options.display_name("reward_model")));
  if (options.has_option("reward_weights") && options.has("reward_weights"))
    config.advantage.weights = options.reals("reward_weights");
  if (auto weights = config.advantage.weights.size(); weights != 0 && weights != count)
    throw UserError(ExitCode::usage,
                    fmt::format("{} names {} weights for {} rewards", options.display_name("reward_weights"), weights, count),
                    "expected one for each");
}

void check_rollouts(const Options& options, const train::TrainingJob& job) {
  if (job.loader.packing != data::Packing::none)
    throw UserError(ExitCode::usage, "generated completions are not packed",
                    "leave --packing out; batches hold no padding in any case");
  if (job.datasets.streaming)
    throw UserError(ExitCode::usage, "prompts are sampled from the full dataset, which a stream does not have",
                    fmt::format("leave {} out", options.display_name("streaming")));
  if (!job.datasets.encoded.empty())
    throw UserError(ExitCode::usage, "rows that are token ids already hold no columns for rewards",
                    "name the rows themselves with --dataset");
  if (job.predict_with_generate)
    throw UserError(ExitCode::usage, "completions are always generated in evaluations", "leave --predict_with_generate out");
}

}  // namespace hone::cli
