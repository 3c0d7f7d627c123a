// `hone policy-trace`: rewards of given completions, advantages of given rewards, losses and gradients of given batches, as JSON.
// For comparison with other implementations; hidden from help.
#include <cmath>

#include "hone/cli/commands.h"
#include "hone/model/causal_lm.h"
#include "hone/train/losses/linear_divergence.h"
#include "hone/train/losses/policy.h"
#include "hone/train/losses/ppo.h"
#include "hone/train/methods/forward_pass.h"
#include "hone/train/rl/advantages.h"
#include "hone/train/rl/experience.h"
#include "hone/train/rl/loader/batch_state.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::cli {
namespace {

using namespace train::rl;

Json number_or_null(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

Json reward_trace(const Json& asked) {
  RewardConfig config{.functions = asked.at("functions")};
  config.max_completion_length = asked.value("max_answer", config.max_completion_length);
  config.soft_margin = asked.value("soft_margin", config.soft_margin);
  config.repetition_words = asked.value("repetition_words", config.repetition_words);
  if (auto plugins = asked.value("plugins", Json::object()); !plugins.empty())
    config.plugins = {.files = plugins.at("files"),
                      .python = plugins.at("python"),
                      .timeout = plugins.at("timeout"),
                      .memory_limit = plugins.value("memory_limit", int64_t{0}),
                      .arguments = plugins.value("arguments", Json::object())};
  if (const auto sandbox = asked.value("sandbox", Json()); sandbox.is_object())
    config.sandbox = {.enabled = true, .timeout = sandbox.at("timeout"), .memory_limit = sandbox.at("memory_limit")};
  std::vector<data::Conversation> questions(asked.at("rows").size());
  std::vector<RewardInput> completions;
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto& row = asked["rows"][i];
    questions[i].extra = {{"solution", row.contains("solution") ? row["solution"] : Json("")}};
    if (row.contains("test_cases")) questions[i].extra["test_cases"] = row["test_cases"];
    questions[i].origin = {"row", static_cast<int64_t>(i + 1), ""};
    completions.push_back({&questions[i], row.at("text"), row.value("tokens", int64_t{0})});
  }
  Json result = Json::object();
  for (const auto& reward : make_rewards(config)) {
    auto& scores = result[reward->name()] = Json::array();
    for (double score : reward->score(completions)) scores.push_back(number_or_null(score));
  }
  return result;
}

Json advantage_trace(const Json& asked) {
  RewardTable rewards;
  for (const auto& row : asked.at("rewards")) {
    rewards.emplace_back();
    for (const auto& value : row) rewards.back().push_back(value.is_null() ? std::nan("") : value.get<double>());
  }
  AdvantageConfig config{.estimator = static_cast<Estimator>(asked.at("estimator").get<int>()),
                         .scale = static_cast<RewardScale>(asked.at("scale").get<int>()),
                         .weights = asked.at("weights")};
  int64_t generations = asked.at("generations");
  auto totals = total_rewards(rewards, config.weights);
  if (asked.contains("divergences"))
    for (size_t i = 0; i < totals.size(); ++i) totals[i] -= asked.value("beta", 0.0) * asked["divergences"][i].get<double>();
  std::vector<std::string> names;
  for (size_t i = 0; i < config.weights.size(); ++i) names.push_back(std::to_string(i));
  Json metrics = Json::object();
  for (const auto& [name, value] : reward_metrics(totals, rewards, names, generations, config.scale)) metrics[name] = value;
  return {{"advantages", advantages_of(totals, rewards, generations, config)}, {"metrics", metrics}};
}

train::PolicyConfig policy_config(const Json& asked) {
  train::PolicyConfig config;
  config.objective = static_cast<train::PolicyObjective>(asked.at("objective").get<int>());
  config.level = static_cast<train::RatioLevel>(asked.value("level", 0));
  config.temperature = asked.value("temperature", config.temperature);
  config.epsilon_low = asked.value("clip_below", config.epsilon_low);
  config.epsilon_high = asked.value("clip_above", config.epsilon_high);
  if (asked.contains("ratio_cap")) config.delta = asked["ratio_cap"].get<double>();
  if (asked.contains("farthest_bad_answer")) config.off_policy_mask_delta = asked["farthest_bad_answer"].get<double>();
  config.reference_weight = asked.value("reference_weight", 0.0);
  config.overlong_filter = asked.value("leave_out_cut", false);
  config.top_entropy = asked.value("top_entropy", 1.0);
  config.report_entropy = asked.value("report_entropy", false);
  config.fipo_clip_above_only = asked.value("fipo_clip_above_only", true);
  config.max_completion_length = asked.value("max_answer", config.max_completion_length);
  config.correction.mode = static_cast<train::RolloutCorrectionMode>(asked.value("correction", 0));
  config.correction.threshold = asked.value("correction_threshold", config.correction.threshold);
  config.correction.report = asked.value("report_drift", config.correction.report);
  return config;
}

ExperienceConfig experience_config(const Json& asked) {
  ExperienceConfig config;
  config.kl_estimator = asked.value("kl_estimator", "k1") == "k3" ? KlEstimator::k3 : KlEstimator::k1;
  config.gamma = asked.value("gamma", config.gamma);
  config.lam = asked.value("lam", config.lam);
  config.whiten_rewards = asked.value("whiten_rewards", false);
  if (asked.contains("kl_target")) config.kl_target = asked["kl_target"].get<double>();
  return config;
}

// Advantages and returns of trajectories; running reward statistics and the KL coefficient after each rollout.
Json experience_trace(const Json& asked) {
  auto config = experience_config(asked);
  std::vector<Trajectory> trajectories;
  for (const auto& each : asked.value("trajectories", Json::array()))
    trajectories.push_back({each.at("logps"), each.at("ref_logps"), each.at("values"), each.at("score")});
  train::SingleProcess alone;
  ExperienceState state{.kl_coef = asked.at("kl_coef")};
  if (!trajectories.empty()) estimate_advantages(trajectories, state.kl_coef, config, alone);
  Json result{{"advantages", Json::array()}, {"returns", Json::array()}, {"scores", Json::array()}, {"kl_coefs", Json::array()}};
  for (const auto& trajectory : trajectories) {
    result["advantages"].push_back(trajectory.advantages);
    result["returns"].push_back(trajectory.returns);
  }
  for (const auto& rollout : asked.value("score_rollouts", Json::array())) {
    auto scores = rollout.get<std::vector<double>>();
    normalize_scores(scores, state);
    result["scores"].push_back(scores);
  }
  for (const auto& kl : asked.value("divergences", Json::array())) {
    adapt_kl_coef(kl.get<double>(), asked.at("completions"), config, state);
    result["kl_coefs"].push_back(state.kl_coef);
  }
  return result;
}

void forget_gradients(model::CausalLM& model) {
  for (const auto& parameter : model.parameters()) {
    parameter.value->mutable_grad() = Tensor();
    parameter.value->requires_grad_(true);
  }
}

void add_gradient_norms(model::CausalLM& model, const std::string& prefix, Json& norms) {
  for (const auto& parameter : model.parameters())
    if (const auto& gradient = parameter.value->grad(); gradient.defined())
      norms[prefix + parameter.name] = gradient.norm().item<double>();
}

Json ppo_trace(model::CausalLM& model, model::CausalLM& value_model, const Json& asked) {
  train::PpoLossConfig config;
  config.temperature = asked.value("temperature", config.temperature);
  config.cliprange = asked.value("cliprange", config.cliprange);
  config.cliprange_value = asked.value("cliprange_value", config.cliprange_value);
  config.vf_coef = asked.value("vf_coef", config.vf_coef);
  config.report_entropy = true;
  train::PpoLoss method(config, &value_model);
  auto batch = batch_from_json(asked.at("batch"));
  forget_gradients(model);
  forget_gradients(value_model);
  auto loss = forward_loss(model, method, batch);
  (loss.sum / method.num_items(batch)).backward();
  Json norms = Json::object(), metrics = Json::object();
  add_gradient_norms(model, "policy.", norms);
  add_gradient_norms(value_model, "value_model.", norms);
  for (const auto& metric : loss.metrics) metrics[metric.name] = metric.sum.item<double>() / metric.num_items;
  method.add_derived_metrics(metrics, "");
  return {{"loss", loss.sum.item<double>() / method.num_items(batch)}, {"gradients", norms}, {"metrics", metrics}};
}

// The divergence from a teacher's distributions at the labeled positions of a batch.
Json divergence_trace(model::CausalLM& model, model::CausalLM& teacher, const Json& asked) {
  const auto batch = batch_from_json(asked.at("batch"));
  forget_gradients(model);
  const auto hidden_of = [&](model::CausalLM& of) { return of.hidden_states(train::forward_input(batch)); };
  Tensor teacher_th;
  {
    at::NoGradGuard no_grad;
    teacher_th = hidden_of(teacher);
  }
  const int64_t topk = asked.value("topk", int64_t{0});
  const auto ask = [&](const Tensor& positions_n) -> train::TeacherScores {
    auto logits = teacher.logits(teacher_th.index_select(0, positions_n));
    if (topk == 0) return {logits, {}};
    auto [scores, indices] = logits.topk(topk, 1);
    return {scores, indices};
  };
  const auto labelled = (batch.targets_t != -100).nonzero().squeeze(1);
  auto sum = train::linear_divergence(model, hidden_of(model), labelled, ask, {asked.at("beta"), asked.at("temperature")});
  const auto count = static_cast<double>(batch.target_count);
  (sum / count).backward();
  Json norms = Json::object();
  add_gradient_norms(model, "", norms);
  return {{"loss", sum.item<double>() / count}, {"gradients", norms}};
}

Json loss_trace(model::CausalLM& model, const Json& asked) {
  train::PolicyLoss method(policy_config(asked));
  auto batch = batch_from_json(asked.at("batch"));
  forget_gradients(model);
  auto loss = forward_loss(model, method, batch);
  (loss.sum / method.num_items(batch)).backward();
  Json norms = Json::object(), metrics = Json::object();
  add_gradient_norms(model, "", norms);
  for (const auto& metric : loss.metrics) metrics[metric.name] = metric.sum.item<double>() / metric.num_items;
  return {{"loss", loss.sum.item<double>() / method.num_items(batch)}, {"gradients", norms}, {"metrics", metrics}};
}

}  // namespace

int policy_trace_command(const Options& options) {
  if (options.positional().empty()) throw UserError(ExitCode::usage, "policy-trace needs a file that says what to compute");
  const auto asked = read_config_file(options.positional().front());
  Json result{{"rewards", Json::array()}, {"advantages", Json::array()}, {"losses", Json::array()}};
  for (const auto& each : asked.value("rewards", Json::array())) result["rewards"].push_back(reward_trace(each));
  for (const auto& each : asked.value("advantages", Json::array())) result["advantages"].push_back(advantage_trace(each));
  if (asked.contains("losses")) {
    auto model = model::CausalLM::load(asked.at("model").get<std::string>(), {.dtype = at::kFloat});
    for (const auto& each : asked["losses"]) result["losses"].push_back(loss_trace(*model, each));
  }
  for (const auto& each : asked.value("experience", Json::array())) result["experience"].push_back(experience_trace(each));
  if (asked.contains("ppo")) {
    auto model = model::CausalLM::load(asked.at("model").get<std::string>(), {.dtype = at::kFloat});
    auto value_model = model::CausalLM::load(asked.at("value_model").get<std::string>(), {.dtype = at::kFloat});
    for (const auto& each : asked["ppo"]) result["ppo"].push_back(ppo_trace(*model, *value_model, each));
  }
  if (asked.contains("divergences")) {
    auto model = model::CausalLM::load(asked.at("model").get<std::string>(), {.dtype = at::kFloat});
    auto teacher = model::CausalLM::load(asked.at("teacher").get<std::string>(), {.dtype = at::kFloat});
    for (const auto& each : asked["divergences"]) result["divergences"].push_back(divergence_trace(*model, *teacher, each));
  }
  fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace hone::cli
