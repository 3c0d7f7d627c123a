#include "hone/cli/jobs/reinforcement_job.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/log.h"
#include "hone/cli/jobs/engine_settings.h"
#include "hone/cli/jobs/reference_job.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

using train::PolicyConfig;
using train::PolicyObjective;
using train::RatioLevel;
using train::rl::Estimator;
using train::rl::ReinforcementConfig;
using train::rl::RewardScale;

constexpr std::pair<std::string_view, PolicyObjective> kObjectives[] = {
    {"grpo", PolicyObjective::grpo}, {"bnpo", PolicyObjective::bnpo},   {"dr_grpo", PolicyObjective::dr_grpo}, {"dapo", PolicyObjective::dapo},
    {"cispo", PolicyObjective::cispo}, {"sapo", PolicyObjective::sapo}, {"real", PolicyObjective::real},       {"fipo", PolicyObjective::fipo}};
constexpr std::pair<std::string_view, RatioLevel> kLevels[] = {
    {"token", RatioLevel::token}, {"sequence", RatioLevel::sequence}, {"sequence_token", RatioLevel::sequence_token}};
constexpr std::pair<std::string_view, Estimator> kEstimators[] = {
    {"grpo", Estimator::grpo}, {"rloo", Estimator::rloo}, {"reinforce_plus_plus", Estimator::reinforce_plus_plus}};
constexpr std::pair<std::string_view, RewardScale> kScales[] = {
    {"group", RewardScale::group}, {"none", RewardScale::none}, {"batch", RewardScale::batch}, {"gdpo", RewardScale::gdpo}};

template <class Value, size_t N>
Value chosen(const Options& options, std::string_view option, std::string_view name, const std::pair<std::string_view, Value> (&list)[N]) {
  std::vector<std::string_view> known;
  for (const auto& [each, value] : list) {
    if (each == name) return value;
    known.push_back(each);
  }
  throw UserError(ExitCode::usage, fmt::format("{} {} does not go with grpo", options.shown(option), name), fmt::format("expected {}", fmt::join(known, ", ")));
}

void read_sampling(const Options& options, ReinforcementConfig& config) {
  auto& sampling = config.sampling;
  sampling.temperature = options.real("temperature");
  if (!(sampling.temperature > 0))
    throw UserError(ExitCode::usage, fmt::format("{} is 0: all answers to a prompt would be the same", options.shown("temperature")), "expected a number above 0");
  sampling.top_p = options.real("top_p");
  sampling.top_k = std::max<int64_t>(0, options.integer("top_k"));
  if (options.has("min_p")) sampling.min_p = options.real("min_p");
  if (options.has("repetition_penalty")) sampling.repetition_penalty = options.real("repetition_penalty");
  sampling.stop = options.list("stop_words");
  sampling.include_stop = true;
  sampling.max_tokens = options.integer("max_new_tokens");
  if (sampling.max_tokens <= 0) throw UserError(ExitCode::usage, fmt::format("{} is {}", options.setting("max_new_tokens").where, sampling.max_tokens), "expected 1 or more");
  auto& engine = config.engine;
  engine.max_sequences = options.integer("vllm_max_num_seqs");
  engine.memory_utilization = options.real("vllm_gpu_memory_utilization");
  engine.prefix_cache = options.flag("vllm_enable_prefix_caching");
  engine.graphs = !options.flag("vllm_enforce_eager");
  if (options.has("vllm_max_model_len")) engine.max_context = options.integer("vllm_max_model_len");
  apply_engine_arguments(options, engine);
  config.engine_sleeps = options.integer("sleep_level") > 0;
  if (options.flag("use_vllm") || options.has("vllm_mode")) log::info("answers are written by hone's own engine, in the processes that train");
  if (options.text("vllm_mode") == "server" || options.has("vllm_server_host") || options.has("vllm_server_base_url"))
    throw UserError(ExitCode::usage, "answers written by a rollout server are not in this version", fmt::format("leave {} out, or say colocate", options.shown("vllm_mode")));
}

void read_rewards(const Options& options, train::TrainingJob& job, ReinforcementConfig& config) {
  auto& rewards = config.rewards;
  rewards.functions = options.list("reward_funcs");
  rewards.max_answer = config.sampling.max_tokens;
  rewards.cosine_shortest_wrong = options.real("cosine_min_len_value_wrong");
  rewards.cosine_longest_wrong = options.real("cosine_max_len_value_wrong");
  rewards.cosine_shortest_right = options.real("cosine_min_len_value_correct");
  rewards.cosine_longest_right = options.real("cosine_max_len_value_correct");
  if (options.has("cosine_max_len")) rewards.cosine_longest = options.integer("cosine_max_len");
  rewards.repetition_words = options.integer("repetition_n_grams");
  rewards.repetition_penalty = options.real("repetition_max_penalty");
  if (options.has("soft_max_length")) rewards.soft_longest = options.integer("soft_max_length");
  if (options.has("soft_cache_length")) rewards.soft_margin = options.integer("soft_cache_length");
  rewards.judge_seconds = options.real("reward_timeout");
  rewards.judges_elsewhere = options.flag("remote_rewards");
  auto made = make_rewards(rewards);  // names and settings are judged now, before a model is loaded
  for (const auto& plugin : options.list("reward_model_plugin"))
    if (plugin != "default")
      throw UserError(ExitCode::usage, fmt::format("{} {} would be Python, which hone does not run", options.shown("reward_model_plugin"), plugin),
                      fmt::format("serve what it does and name its address: {} http://127.0.0.1:9000/score (docs/reinforcement.md)", options.shown("reward_funcs")));
  auto adapters = options.list("reward_adapters");
  auto models = options.list("reward_model"), revisions = options.list("reward_model_revision"), templates = options.list("reward_template");
  for (size_t i = 0; i < models.size(); ++i) {
    train::RewardModelConfig model{.folder = hub::locate_model(models[i], i < revisions.size() ? revisions[i] : ""), .adapters = {}, .load = job.load, .encode = job.encode};
    if (std::filesystem::exists(model.folder / "adapter_config.json") && !std::filesystem::exists(model.folder / "config.json"))
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{} {} holds an adapter, not a model", options.shown("reward_model"), models[i]),
                      fmt::format("name the model it was trained on, and the adapter beside it: {} MODEL {} {}", options.shown("reward_model"), options.shown("reward_adapters"), models[i]));
    model.load.changes = {};
    model.encode.max_length = 0;
    model.encode.template_name = i < templates.size() ? templates[i] : "";
    for (const auto& adapter : adapters) model.adapters.push_back(hub::locate_model(adapter));
    config.reward_models.push_back(std::move(model));
  }
  auto count = made.size() + models.size();
  if (count == 0)
    throw UserError(ExitCode::usage, "grpo needs to know what answers are worth", fmt::format("add {} accuracy format, the address of your own, or {}", options.shown("reward_funcs"), options.shown("reward_model")));
  if (options.has("reward_weights")) config.advantage.weights = options.reals("reward_weights");
  if (auto weights = config.advantage.weights.size(); weights != 0 && weights != count)
    throw UserError(ExitCode::usage, fmt::format("{} names {} weights for {} rewards", options.shown("reward_weights"), weights, count), "expected one for each");
}

void read_objective(const Options& options, ReinforcementConfig& config) {
  auto& policy = config.policy;
  policy.objective = policy_objective(options);
  policy.level = chosen(options, "importance_sampling_level", options.text("importance_sampling_level"), kLevels);
  policy.temperature = config.sampling.temperature;
  policy.clip_below = options.real("epsilon");
  policy.clip_above = options.has("epsilon_high") ? options.real("epsilon_high") : policy.clip_below;
  if (options.has("delta")) policy.ratio_cap = options.real("delta");
  policy.sapo_good = options.real("tau_pos");
  policy.sapo_bad = options.real("tau_neg");
  policy.real_temperature = options.real("real_tau");
  policy.fipo_half_life = options.real("fipo_decay_rate");
  policy.fipo_clip = options.real("fipo_clip_range");
  policy.fipo_clip_above_only = options.flag("fipo_clip_high_only");
  policy.fipo_safe_ratio = options.real("fipo_safety_threshold");
  policy.leave_out_cut = options.flag("overlong_filter");
  policy.top_entropy = options.real("top_entropy_quantile");
  policy.report_entropy = options.flag("log_entropy");
  if (options.has("off_policy_sequence_mask_delta")) policy.farthest_bad_answer = options.real("off_policy_sequence_mask_delta");
  policy.max_answer = config.sampling.max_tokens;
  if (!config.divergence_in_reward) policy.reference_weight = config.reference_weight;
}

void read_advantage(const Options& options, ReinforcementConfig& config) {
  auto& advantage = config.advantage;
  advantage.estimator = chosen(options, "advantage_estimator", options.text("advantage_estimator"), kEstimators);
  const bool by_group = advantage.estimator == Estimator::grpo;
  auto scale = options.text("scale_rewards");
  if (scale == "auto") scale = by_group ? "group" : advantage.estimator == Estimator::rloo ? "none" : "batch";
  advantage.scale = chosen(options, "scale_rewards", scale, kScales);
  bool real = options.list("loss_type") == std::vector<std::string>{"real"};
  if (real && advantage.scale != RewardScale::none) {
    if (options.given("scale_rewards")) log::warning("{} is left aside: the loss real takes rewards as they are", options.shown("scale_rewards"));
    advantage.scale = RewardScale::none;
  }
  config.divergence_in_reward = options.has("kl_in_reward") ? options.flag("kl_in_reward") : !by_group;
  if (config.divergence_in_reward && advantage.scale == RewardScale::gdpo) {
    log::warning("{} is left aside: gdpo weighs each reward by itself", options.shown("kl_in_reward"));
    config.divergence_in_reward = false;
  }
}

void read_geometry(const Options& options, ReinforcementConfig& config) {
  auto& geometry = config.geometry;
  geometry.generations = options.integer("num_generations");
  geometry.iterations = options.integer("num_iterations");
  if (options.has("generation_batch_size")) geometry.generation_batch_size = options.integer("generation_batch_size");
  if (options.has("steps_per_generation")) geometry.steps_per_generation = options.integer("steps_per_generation");
  config.eval_generations = options.has("num_generations_eval") ? options.integer("num_generations_eval") : geometry.generations;
  geometry.whole_groups = options.list("loss_type") == std::vector<std::string>{"real"};
}

void check_run(const Options& options, const train::TrainingJob& job) {
  if (job.loader.packing != data::Packing::none) throw UserError(ExitCode::usage, "answers that the model writes itself are not packed", "leave --packing out; batches hold no padding in any case");
  if (job.datasets.streaming) throw UserError(ExitCode::usage, "prompts are drawn from the whole dataset, which a stream does not show", fmt::format("leave {} out", options.shown("streaming")));
  if (!job.datasets.encoded.empty()) throw UserError(ExitCode::usage, "rows that are token ids already hold no columns for rewards", "name the rows themselves with --dataset");
  if (job.predict_with_generate) throw UserError(ExitCode::usage, "grpo writes answers in its evaluations anyway", "leave --predict_with_generate out");
}

}  // namespace

PolicyObjective policy_objective(const Options& options) {
  auto losses = options.list("loss_type");
  if (losses.size() > 1) throw UserError(ExitCode::usage, fmt::format("{} names {} losses", options.shown("loss_type"), losses.size()), "expected one");
  return chosen(options, "loss_type", losses.empty() ? "grpo" : losses.front(), kObjectives);
}

void apply_reinforcement(const Options& options, train::TrainingJob& job) {
  check_run(options, job);
  auto& config = job.reinforcement.emplace();
  config.reference_weight = options.real("beta");
  config.replace_even_groups = options.flag("dynamic_sample");
  config.most_draws = options.integer("max_resample_times");
  config.log_completions = options.flag("log_completions");
  read_sampling(options, config);
  read_geometry(options, config);
  read_advantage(options, config);
  read_rewards(options, job, config);
  read_objective(options, config);
  read_reference(options, config.reference_weight > 0, fmt::format("grpo with {} 0", options.shown("beta")), job);
  job.datasets.prompts_only = true;
}

}  // namespace hone::cli
