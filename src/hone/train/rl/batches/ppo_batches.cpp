#include "hone/train/rl/batches/ppo_batches.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <numeric>

#include "hone/base/log.h"
#include "hone/model/decoder.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/loop/stop_signal.h"
#include "hone/train/losses/policy_tokens.h"
#include "hone/train/methods/forward_pass.h"
#include "hone/train/rl/gather.h"

namespace hone::train::rl {
namespace {

// The states of a completion: before each token that the model generated, and the one after the last token, which ends its
// segment. Text of others between two turns is part of the next state.
std::vector<int64_t> state_positions(const data::Batch& batch, size_t segment, const GeneratedCompletion& completion) {
  const auto end = batch.segments.offsets[segment + 1] - 1, begin = end - static_cast<int64_t>(completion.tokens.size());
  const auto& mask = completion.loss_mask;
  std::vector<int64_t> positions;
  for (auto position = begin; position < end; ++position)
    if (mask.empty() || mask[static_cast<size_t>(position - begin)]) positions.push_back(position);
  positions.push_back(end);
  return positions;
}

std::vector<double> numbers_at(const Tensor& values_t, const std::vector<int64_t>& positions, size_t count) {
  if (!values_t.defined()) return {};
  const float* values = values_t.const_data_ptr<float>();
  std::vector<double> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(values[positions[i]]));
  return numbers;
}

void write_numbers(const std::vector<double>& numbers, Tensor& values_t, const std::vector<int64_t>& positions) {
  auto* values = values_t.mutable_data_ptr<float>();
  for (size_t i = 0; i < numbers.size(); ++i) values[positions[i]] = static_cast<float>(numbers[i]);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / std::max(1.0, static_cast<double>(values.size()));
}

double mean_over(const std::vector<double>& own, ParallelStrategy& group) {
  const double sum = group.sum(std::accumulate(own.begin(), own.end(), 0.0));
  return sum / std::max(1.0, group.sum(static_cast<double>(own.size())));
}

// The passes' values cover the batches' tokens in the same order.
void fill_payloads(const std::vector<data::Batch>& batches, const TensorList& old_logps, const TensorList& ref_logps,
                   const TensorList& values, std::vector<PpoPayload>& payloads) {
  const auto joined = [](const TensorList& all) { return all.empty() ? Tensor() : at::cat(all); };
  const auto all_old_t = joined(old_logps), all_ref_t = joined(ref_logps), all_values_t = joined(values);
  const auto part_of = [](const Tensor& all_t, int64_t begin, int64_t length) {
    return all_t.defined() ? all_t.narrow(0, begin, length).clone() : Tensor();
  };
  int64_t first = 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    auto& payload = payloads[b];
    const auto length = batches[b].segments.total();
    payload.old_logps_t = part_of(all_old_t, first, length);
    payload.values_t = part_of(all_values_t, first, length);
    payload.ref_logps_t = part_of(all_ref_t, first, length);
    payload.returns_t = at::zeros({length}, at::kFloat);
    payload.advantages_t = at::zeros({length}, at::kFloat);
    payload.is_state_t = at::zeros({length}, at::kFloat);
    first += length;
  }
}

// The mean difference of the log-probabilities per token; 0 without the sampler's.
double distance_from_sampler(const RolloutBatch& draw, const std::vector<Trajectory>& trajectories) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < trajectories.size(); ++i) {
    const auto& sampled = draw.own[i].completion.logprobs;
    const auto& computed = trajectories[i].logps;
    if (sampled.size() != computed.size()) continue;  // none, or of several turns
    for (size_t t = 0; t < sampled.size(); ++t) sum += std::abs(sampled[t] - computed[t]), ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

// Whether a training pass computes what an evaluation does, with weights that are all here until its backward pass.
bool PpoBatches::can_record_passes() const {
  const auto uses_random_numbers = [](model::CausalLM& model) {
    const auto& decoder = model.decoder();
    return decoder.neftune_alpha > 0 || decoder.shifted_attention ||
           std::ranges::any_of(decoder.blocks, &model::Block::uses_random_numbers);
  };
  return !deps_.sharded && !models_.sequence && !deps_.model.decoder().pipeline && !deps_.model.decoder().region &&
         !uses_random_numbers(deps_.model) && !(models_.value_model && uses_random_numbers(*models_.value_model));
}

// Current log-probabilities of the policy and values, of one pass. With `recorded`, the pass is kept there for its update.
PpoBatches::ObservedPass PpoBatches::observe_pass(const data::Batch& pass, PpoPayload* recorded) {
  const double temperature = config_.ppo->loss.temperature;
  std::optional<EvaluationMode> mode, value_mode;
  if (!recorded) mode.emplace(deps_.model);
  if (!recorded && models_.value_model) value_mode.emplace(*models_.value_model);
  const auto here = (models_.sequence ? train::own_part(pass, *models_.sequence) : pass).to(deps_.model.device());
  auto outputs = run_forward(deps_.model, {.batch = here,
                                           .value_model = models_.value_model,
                                           .rows_r = models_.sequence ? Tensor() : rows_read(here, /*with_ends=*/true)});
  const auto& tokens_t = outputs.batch.tokens_t;
  if (recorded) outputs.record_logps(temperature);
  at::NoGradGuard no_grad;
  auto logps_t = outputs.target_logps(temperature).logps_t.detach();
  auto values_t = outputs.values(at::arange(tokens_t.size(0), tokens_t.options())).contiguous();
  if (recorded) recorded->recorded = std::make_shared<std::optional<ForwardOutputs>>(std::move(outputs));
  if (auto* pipeline = deps_.model.decoder().pipeline)
    for (auto* found : {&logps_t, &values_t}) pipeline->broadcast_from_last(*found);
  if (models_.sequence)
    for (auto* found : {&logps_t, &values_t}) *found = whole_rows(*found, pass.segments.total(), *models_.sequence);
  return {logps_t.to(at::kCPU), values_t.to(at::kCPU, at::kFloat)};
}

// The reference's log-probabilities, of each pass; none if the loss compares with none.
TensorList PpoBatches::reference_logps(const std::vector<data::Batch>& passes) {
  TensorList ref_logps;
  if (!models_.reference || config_.beta <= 0) return ref_logps;
  for (const auto& pass : passes)
    models_.reference->with_reference(deps_.model, [&](model::CausalLM& model) {
      const auto logps_t = policy_logps(model, pass.to(model.device()), config_.ppo->loss.temperature, models_.sequence);
      ref_logps.push_back(logps_t.to(at::kCPU));
    });
  return ref_logps;
}

// Current log-probabilities and values of all models. Payloads keep log-probabilities and values. The pass of the batch that
// trains first, before the weights change, is kept for its update.
std::vector<Trajectory> PpoBatches::observe(const std::vector<data::Batch>& batches, const RolloutBatch& draw,
                                            std::optional<size_t> first_trained, std::vector<PpoPayload>& payloads) {
  const auto& ppo = *config_.ppo;
  // Passes may have other numbers of completions than batches, which are concatenated in the same order.
  const auto trained_at_once = static_cast<int64_t>(draw.own.size() / batches.size());
  const bool regroups = ppo.forward_batch > 0 && ppo.forward_batch != trained_at_once;
  const auto passes = regroups ? collate_completions(draw, ppo.forward_batch) : batches;
  const bool records = first_trained && !regroups && can_record_passes();
  TensorList old_logps, values;
  for (size_t p = 0; p < passes.size(); ++p) {
    auto observed = observe_pass(passes[p], records && p == *first_trained ? &payloads[p] : nullptr);
    old_logps.push_back(std::move(observed.logps_t));
    values.push_back(std::move(observed.values_t));
  }
  fill_payloads(batches, old_logps, reference_logps(passes), values, payloads);
  return trajectories_of(batches, draw, payloads);
}

// The states of each completion, of which only those shorter than the longest have one after them: where trl's rows are padded.
std::vector<Trajectory> PpoBatches::trajectories_of(const std::vector<data::Batch>& batches, const RolloutBatch& draw,
                                                    const std::vector<PpoPayload>& payloads) {
  std::vector<double> lengths;
  for (const auto& sample : draw.own) lengths.push_back(static_cast<double>(sample.completion.tokens.size()));
  const auto all = gather(lengths, deps_.strategy);
  const auto longest = static_cast<size_t>(*std::ranges::max_element(all));
  std::vector<Trajectory> trajectories;
  for (size_t b = 0; b < batches.size(); ++b)
    for (size_t segment = 0; segment < static_cast<size_t>(batches[b].segments.count()); ++segment) {
      const auto& completion = draw.own[trajectories.size()].completion;
      const auto positions = state_positions(batches[b], segment, completion);
      const auto tokens = positions.size() - 1;
      const bool ends = tokens > 0 && completion.tokens.size() < longest;
      const auto states = tokens + (config_.ppo->experience.has_end_state && ends ? 1 : 0);
      const auto& payload = payloads[b];
      trajectories.push_back({numbers_at(payload.old_logps_t, positions, tokens),
                              numbers_at(payload.ref_logps_t, positions, tokens), numbers_at(payload.values_t, positions, states),
                              0});
    }
  compare_models([&] { return distance_from_sampler(draw, trajectories); });
  return trajectories;
}

// Over all processes, in order.
std::vector<double> PpoBatches::reward_scores(const RolloutBatch& draw, ExperienceState& state) const {
  const auto& experience = config_.ppo->experience;
  for (size_t i = 0; i < draw.rewards.size(); ++i)
    if (std::ranges::all_of(draw.rewards[i], [](double reward) { return std::isnan(reward); }))
      throw FailedBetweenSteps(
          UserError(ExitCode::failure,
                    fmt::format("every reward is null for completion {} of the rollout ({})", i + 1,
                                fmt::join(worker_.reward_names(), ", ")),
                    "PPO needs a number for every completion: make sure that at least one reward is not null"));
  auto scores = worker_.totals(draw.rewards);
  for (size_t i = 0; i < scores.size(); ++i)
    if (!std::isfinite(scores[i]))
      throw FailedBetweenSteps(
          UserError(ExitCode::failure, fmt::format("the reward of completion {} of the rollout is {}", i + 1, scores[i]),
                    "look at what the rewards return: " + fmt::format("{}", fmt::join(worker_.reward_names(), ", "))));
  if (experience.missing_eos_penalty) {
    std::vector<double> cut;
    for (const auto& sample : draw.own) cut.push_back(sample.completion.truncated ? 1 : 0);
    cut = gather(cut, deps_.strategy);
    for (size_t i = 0; i < scores.size(); ++i) scores[i] -= *experience.missing_eos_penalty * cut[i];
  }
  if (experience.score_norm) normalize_scores(scores, state);
  return scores;
}

// Equal scores teach nothing but the KL term.
void PpoBatches::watch_scores(const std::vector<double>& scores) {
  const auto [least, most] = std::ranges::minmax(scores);
  report_.count_zero_signal(!(most - least > 1e-8), "all completions got the same reward: there is nothing to learn");
}

// Metrics of a rollout, under the names of the dialect: ms-swift's or LLaMA-Factory's.
std::vector<std::pair<std::string, double>> PpoBatches::ppo_notes(const RolloutBatch& draw,
                                                                  const std::vector<Trajectory>& trajectories,
                                                                  const std::vector<double>& scores, double kl,
                                                                  double kl_coef) const {
  const auto& ppo = *config_.ppo;
  auto& group = deps_.strategy;
  std::vector<double> entropies, ended;
  for (size_t i = 0; i < trajectories.size(); ++i) {
    const auto& completion = draw.own[i].completion;
    entropies.push_back(-std::accumulate(trajectories[i].logps.begin(), trajectories[i].logps.end(), 0.0));
    ended.push_back(completion.truncated ? 0 : 1);
  }
  const double score = std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size());
  const double from_divergence = ppo.experience.kl_in_reward ? -kl_coef * kl : 0;
  const auto named = [&](const char* name, const char* legacy) { return ppo.loss.legacy_names ? legacy : name; };
  std::vector<std::pair<std::string, double>> notes{
      {"objective/kl", kl},
      {"objective/kl_coef", kl_coef},
      {"objective/entropy", mean_over(entropies, group)},
      {named("objective/non_score_reward", "ppo/mean_non_score_reward"), from_divergence},
      {named("objective/scores", "ppo/mean_scores"), score},
      {"val/num_eos_tokens", mean_over(ended, group) * static_cast<double>(scores.size())},
      {"time/rollout", worker_.generating_seconds()},
      {"time/reward", worker_.scoring_seconds()}};
  if (!ppo.loss.legacy_names) notes.emplace_back("objective/rlhf_reward", score + from_divergence);
  for (auto& note : reward_metrics(worker_.totals(draw.rewards), draw.rewards, worker_.reward_names(), 1, RewardScale::batch))
    if (note.first != "frac_reward_zero_std") notes.push_back(std::move(note));
  return notes;
}

void PpoBatches::write_experience(const std::vector<Trajectory>& trajectories, const RolloutBatch& draw,
                                  const std::vector<data::Batch>& batches, std::vector<PpoPayload>& payloads) const {
  const auto size = trajectories.size() / batches.size();
  for (size_t i = 0; i < trajectories.size(); ++i) {
    const auto& trajectory = trajectories[i];
    auto& payload = payloads[i / size];
    const auto positions = state_positions(batches[i / size], i % size, draw.own[i].completion);
    write_numbers(trajectory.advantages, payload.advantages_t, positions);
    write_numbers(trajectory.returns, payload.returns_t, positions);
    write_numbers(std::vector<double>(trajectory.values.size(), 1), payload.is_state_t, positions);
  }
}

std::vector<data::Batch> PpoBatches::make(const RolloutBatch& draw, const RolloutShape& shape, std::optional<int64_t> step,
                                          std::optional<size_t> first_trained, ExperienceState& state) {
  const auto& ppo = *config_.ppo;
  auto& group = deps_.strategy;
  const auto began = std::chrono::steady_clock::now();
  auto batches = collate_completions(draw, shape.micro_batch);
  const auto scores = reward_scores(draw, state);
  if (step) watch_scores(scores);
  std::vector<PpoPayload> payloads(batches.size());
  auto trajectories = observe(batches, draw, first_trained, payloads);
  const auto own = own_part(scores, group);
  std::vector<double> divergences, means;
  double states = 0, tokens = 0;
  for (size_t i = 0; i < trajectories.size(); ++i) {
    trajectories[i].score = own[i];
    divergences.push_back(divergence(trajectories[i], ppo.experience.kl_estimator));
    states += static_cast<double>(trajectories[i].values.size());
  }
  estimate_advantages(trajectories, state.kl_coef, ppo.experience, group);
  auto notes = report_.length_metrics(draw.own, tokens);
  states = group.sum(states);
  write_experience(trajectories, draw, batches, payloads);
  // A value loss is a mean over states, a policy loss a mean over tokens, and the trainer divides both by tokens: the ratio
  // corrects this.
  for (size_t b = 0; b < batches.size(); ++b) {
    payloads[b].value_share = static_cast<float>(states > 0 ? tokens / states : 1);
    payloads[b].kl_weight = static_cast<float>(ppo.experience.kl_in_reward ? 0 : state.kl_coef);
    batches[b].payload = std::make_shared<PpoPayload>(std::move(payloads[b]));
  }
  const double kl = mean_over(divergences, group);
  for (auto& note : ppo_notes(draw, trajectories, scores, kl, state.kl_coef)) notes.push_back(std::move(note));
  if (step && config_.log_completions) {
    for (const auto& trajectory : trajectories) means.push_back(mean_of(trajectory.advantages));
    report_.log_completions(draw, gather(means, group), *step);
  }
  for (const auto& note : worker_.turn_metrics(step.has_value())) notes.push_back(note);
  adapt_kl_coef(kl, static_cast<int64_t>(scores.size()), ppo.experience, state);
  for (auto& note : worker_.engine_metrics()) notes.push_back(std::move(note));
  notes.emplace_back("time/experience", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  batches.front().metrics = std::move(notes);
  return batches;
}

}  // namespace hone::train::rl
