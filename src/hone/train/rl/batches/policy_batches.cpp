#include "hone/train/rl/batches/policy_batches.h"

#include <numeric>

#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/losses/token_logps.h"
#include "hone/train/rl/gather.h"
#include "hone/train/rl/teacher_prompt.h"

namespace hone::train::rl {

std::vector<PolicyPayload> PolicyBatches::compute_old_logps(const std::vector<data::Batch>& batches, bool remembers) {
  std::vector<PolicyPayload> payloads(batches.size());
  const double temperature = config_.policy.temperature;
  auto logps = [&](model::CausalLM& model, const data::Batch& batch) {
    return policy_logps(model, batch.to(model.device()), temperature, models_.sequence).to(at::kCPU);
  };
  if (remembers || divergence_in_reward()) {
    EvaluationMode mode(deps_.model);
    for (size_t i = 0; i < batches.size(); ++i) payloads[i].old_logps_t = logps(deps_.model, batches[i]);
  }
  if (!models_.reference || config_.beta == 0) return payloads;
  for (size_t i = 0; i < batches.size(); ++i)
    models_.reference->with_reference(deps_.model,
                                      [&](model::CausalLM& model) { payloads[i].ref_logps_t = logps(model, batches[i]); });
  return payloads;
}

// The KL of each completion to the reference, over all processes; of several rounds, that of the last.
std::vector<double> PolicyBatches::divergences(const RolloutBatch& draw, const std::vector<data::Batch>& batches,
                                               const std::vector<PolicyPayload>& payloads) const {
  std::vector<double> own;
  const auto size = draw.own.size() / batches.size();
  for (size_t b = 0; b < batches.size(); ++b) {
    const auto& segments = batches[b].segments;
    auto moved = payloads[b].old_logps_t - payloads[b].ref_logps_t;  // zero without a target
    int64_t last = -1;
    for (const auto& episode : std::span(draw.own).subspan(b * size, size)) {
      last += static_cast<int64_t>(episode.earlier.size()) + 1;
      own.push_back(moved.narrow(0, segments.offsets[static_cast<size_t>(last)], segments.length(last)).sum().item<double>());
    }
  }
  return gather(own, deps_.strategy);
}

// Staleness: the number of updates that the sampling weights lag, averaged over all tokens.
std::vector<std::pair<std::string, double>> PolicyBatches::version_notes(const std::vector<RolloutSample>& own,
                                                                         int64_t step) const {
  double tokens = 0, lag = 0;
  for (const auto* rolled : training_rounds(own))
    for (auto version : rolled->completion.versions) ++tokens, lag += static_cast<double>(step - version);
  tokens = deps_.strategy.sum(tokens);
  lag = deps_.strategy.sum(lag);
  auto notes = worker_.engine_metrics();
  if (tokens > 0) notes.emplace_back("rollout/staleness", lag / tokens);
  return notes;
}

std::vector<data::Batch> PolicyBatches::make(const RolloutBatch& draw, const RolloutShape& shape, bool remembers,
                                             std::optional<int64_t> step) {
  auto batches = collate_completions(draw, shape.micro_batch);
  const auto size = static_cast<size_t>(shape.micro_batch);
  const bool taught = asks_teacher(draw);
  auto payloads = compute_old_logps(batches, remembers || taught);
  double tokens = 0;
  auto notes = report_.length_metrics(draw.own, tokens);
  auto sums = worker_.totals(draw.rewards);
  if (divergence_in_reward()) {
    auto moved = divergences(draw, batches, payloads);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] -= config_.beta * moved[i];
    notes.emplace_back("kl", std::accumulate(moved.begin(), moved.end(), 0.0) / static_cast<double>(moved.size()));
  }
  auto advantages = advantages_of(sums, draw.rewards, shape.generations, config_.advantage);
  for (auto& note : reward_metrics(sums, draw.rewards, worker_.reward_names(), shape.generations, config_.advantage.scale)) {
    if (step && note.first == "frac_reward_zero_std" && !taught) watch_differences(note.second);
    notes.push_back(std::move(note));
  }
  if (step && config_.log_completions) report_.log_completions(draw, advantages, *step);
  for (const auto& note : worker_.turn_metrics(step.has_value())) notes.push_back(note);
  if (step && config_.servers)
    for (auto& note : version_notes(draw.own, *step)) notes.push_back(std::move(note));
  auto own = own_part(advantages, deps_.strategy);
  for (size_t b = 0; b < batches.size(); ++b) {
    const auto episodes = std::span(draw.own).subspan(b * size, size);
    const auto rounds = training_rounds(episodes);
    std::vector<float> gains, truncated;
    for (size_t i = 0; i < size; ++i)  // rounds have the advantage of their episode
      gains.insert(gains.end(), episodes[i].earlier.size() + 1, static_cast<float>(own[b * size + i]));
    for (const auto* round : rounds) truncated.push_back(round->completion.truncated ? 1 : 0);
    payloads[b].advantages_s = at::tensor(gains);
    payloads[b].truncated_s = at::tensor(truncated);
    payloads[b].token_share = static_cast<float>(tokens * shape.updates_share / static_cast<double>(rounds.size()));
    payloads[b].group_size = shape.generations;
    if (config_.keep_logprobs) payloads[b].rollout_logps_t = rollout_logps(batches[b], rounds);
  }
  if (taught) compare_with_teacher(batches, draw, step, payloads, notes);
  for (size_t b = 0; b < batches.size(); ++b) batches[b].payload = std::make_shared<PolicyPayload>(std::move(payloads[b]));
  batches.front().metrics = std::move(notes);
  return batches;
}

// The policy is its own teacher for rows with a privileged prompt.
bool PolicyBatches::asks_teacher(const RolloutBatch& draw) const {
  if (!models_.teacher) return false;
  const auto shows_more = [](const RolloutSample& each) { return has_teacher_prompt(each.prompt->question); };
  return !config_.teacher->is_policy() || deps_.strategy.sum(std::ranges::any_of(draw.own, shows_more) ? 1 : 0) > 0;
}

// The teacher's log-probabilities of the sampled tokens, used as token advantages or kept for the loss.
void PolicyBatches::compare_with_teacher(const std::vector<data::Batch>& batches, const RolloutBatch& draw,
                                         std::optional<int64_t> step, std::vector<PolicyPayload>& payloads,
                                         std::vector<std::pair<std::string, double>>& notes) {
  const auto& config = *config_.teacher;
  if (step) updates_ = *step - 1;
  const auto size = draw.own.size() / batches.size();
  double divergence = 0, tokens = 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    auto& payload = payloads[b];
    const auto& batch = batches[b];
    payload.teacher_logps_t =
        models_.teacher->logps(deps_.model, batch, training_rounds(std::span(draw.own).subspan(b * size, size)),
                               {deps_.encoder, config_.policy.temperature, deps_.strategy, models_.sequence, deps_.peers});
    const auto base_t = payload.advantages_s.index_select(0, sequence_ids(batch.segments, at::kCPU));
    if (!config.in_loss)
      payload.advantages_t = advantages_with_teacher(config, base_t, payload.teacher_logps_t, payload.old_logps_t, updates_);
    const auto gap_t = payload.teacher_logps_t - payload.old_logps_t;  // zero without a target
    divergence += (gap_t.exp() - gap_t - 1).sum().item<double>();
    tokens += static_cast<double>(batch.target_count);
  }
  tokens = deps_.strategy.sum(tokens);
  divergence = deps_.strategy.sum(divergence);
  if (tokens == 0) return;
  notes.emplace_back("teacher_kl", divergence / tokens);
  if (config.reweight) notes.emplace_back("rlsd_lambda", config.reweight->lambda_at(updates_));
}

// Completions of a prompt with equal rewards teach nothing.
void PolicyBatches::watch_differences(double even_groups) {
  report_.count_zero_signal(even_groups >= 1,
                            "the completions of each prompt got the same reward, or none: all advantages are zero");
}

}  // namespace hone::train::rl
