#include "hone/train/losses/preference.h"

#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

Tensor every_other(const Tensor& values, int64_t first) { return values.slice(0, first, std::nullopt, 2); }

// LD-DPO: tokens beyond the length of the pair's shorter completion have a lower weight.
Tensor length_weights(const Tensor& labelled_t, const Tensor& numbers_t, const Tensor& counts_s, double beyond) {
  auto shorter_p = at::minimum(every_other(counts_s, 0), every_other(counts_s, 1));
  auto limit_t = shorter_p.repeat_interleave(2, /*dim=*/0, /*output_size=*/counts_s.size(0)).index_select(0, numbers_t);
  auto before_s = counts_s.cumsum(0) - counts_s;  // labeled tokens of the previous sequences
  auto position_t = labelled_t.cumsum(0) - before_s.index_select(0, numbers_t);
  return at::where(position_t <= limit_t, at::ones({}, labelled_t.options()), at::full({}, beyond, labelled_t.options()));
}

// If sequences are split, the pairs may be followed by one segment of padding.
int64_t pairs_in(const data::Batch& batch) { return batch.segments.count() / 2; }

// `sequence`: a sequence is split over processes, and each computes the sums over all of them, with its own gradients.
CompletionLogps completion_logps(const ForwardOutputs& outputs, std::optional<double> length_weight,
                                 const parallel::SequenceParallel* sequence) {
  const auto& batch = outputs.batch;
  auto logps = outputs.target_logps();
  auto numbers_t = sequence_ids(batch.segments, outputs.hidden_th.device());
  auto labelled_t = (batch.targets_t != ops::kIgnoredTarget).to(at::kFloat);
  if (sequence)
    for (auto* values_t : {&logps.logps_t, &logps.mean_logits_t, &labelled_t})
      *values_t = whole_rows(*values_t, batch.segments.total(), *sequence);
  const auto completions = 2 * pairs_in(batch);
  auto over_completions = [&](const Tensor& values_t) {
    return sum_by_sequence(values_t, numbers_t, batch.segments.count()).narrow(0, 0, completions);
  };
  CompletionLogps found;
  found.counts_s = over_completions(labelled_t);
  found.own_sums_s = found.sums_s = over_completions(logps.logps_t);
  found.mean_logits_s = over_completions(logps.mean_logits_t);
  if (length_weight) {
    const auto in_completions_t = numbers_t.clamp_max(completions - 1);  // padding has no label
    found.sums_s = over_completions(logps.logps_t * length_weights(labelled_t, in_completions_t, found.counts_s, *length_weight));
  }
  return found;
}

}  // namespace

PairLogps CompletionLogps::paired_with(const CompletionLogps& reference, bool means) const {
  auto of = [&](const CompletionLogps& model, int64_t first) {
    auto sums = every_other(model.sums_s, first);
    return means ? sums / every_other(counts_s, first).clamp_min(1) : sums;
  };
  return {of(*this, 0), of(*this, 1), of(reference, 0), of(reference, 1)};
}

Tensor CompletionLogps::token_loss() const {
  return -every_other(own_sums_s, 0).sum() / every_other(counts_s, 0).sum().clamp_min(1);
}

Tensor CompletionLogps::row_losses() const { return -every_other(sums_s, 0) / every_other(counts_s, 0).clamp_min(1); }

struct PreferenceLoss::Found {
  Tensor losses_p, chosen_rewards_p, rejected_rewards_p, odds_p;
};

double PreferenceLoss::num_items(const data::Batch& batch) const {
  return sequence_ && !sequence_->is_first_rank() ? 0 : static_cast<double>(pairs_in(batch));
}

void PreferenceLoss::consult(model::CausalLM& model, const data::Batch& batch, PreferencePayload& payload) {
  if (!config_.reference.needed) {
    auto zeros = at::zeros({2 * pairs_in(batch)}, batch.tokens_t.options().dtype(at::kFloat));
    payload.reference = {zeros, zeros, zeros, zeros};
    return;
  }
  reference_->with_reference(model, [&](model::CausalLM& reference) {
    payload.reference = completion_logps(run_forward(reference, {.batch = batch}), std::nullopt, sequence_);
  });
}

// In training, the running mean of all processes' rewards, including this batch; evaluation only reads it.
Tensor PreferenceLoss::baseline(const PairLogps& logps, bool training) {
  if (!baseline_.defined()) baseline_ = at::zeros({}, logps.chosen.options());
  baseline_ = baseline_.to(logps.chosen.device());
  if (!training) return baseline_;
  at::NoGradGuard no_grad;
  auto rewards =
      config_.beta * at::cat({logps.chosen - logps.reference_chosen, logps.rejected - logps.reference_rejected}).mean();
  double processes = group_ ? group_->size() : 1;
  if (processes > 1) group_->all_reduce(rewards);
  baseline_count_ += processes;
  baseline_ = baseline_ + (rewards / processes - baseline_) * (processes / baseline_count_);
  return baseline_;
}

PreferenceLoss::Found PreferenceLoss::compare(const CompletionLogps& policy, const CompletionLogps& reference, bool training) {
  Found found;
  auto add = [](Tensor& total, const Tensor& part) { total = total.defined() ? total + part : part; };
  for (const auto& [name, weight] : config_.losses) {
    auto logps = policy.paired_with(reference, pair_loss_traits(name).uses_mean_logps);
    auto mean = name == "bco_pair" ? baseline(logps, training) : Tensor();
    auto losses_p = name == "sft" ? policy.token_loss().expand_as(logps.chosen) : pair_losses(name, logps, config_, mean);
    add(found.losses_p, losses_p * weight);
    add(found.chosen_rewards_p, (logps.chosen - logps.reference_chosen).detach() * (config_.beta * weight));
    add(found.rejected_rewards_p, (logps.rejected - logps.reference_rejected).detach() * (config_.beta * weight));
    if (name == "orpo") found.odds_p = log_odds(logps).detach();
  }
  if (config_.bco_weight > 0) {
    auto logps = policy.paired_with(reference, pair_loss_traits(config_.losses.front().name).uses_mean_logps);
    auto mixed = pair_losses("bco_pair", logps, config_, baseline(logps, training));
    found.losses_p = (found.losses_p + mixed * config_.bco_weight) / (1 + config_.bco_weight);
  }
  return found;
}

LossSum PreferenceLoss::loss(const ForwardOutputs& outputs, const PreferencePayload& payload) {
  auto& model = outputs.model;
  const auto pairs = static_cast<double>(pairs_in(outputs.batch));
  auto policy = completion_logps(outputs, config_.ld_alpha, sequence_);
  auto found = compare(policy, payload.reference, model.training());
  LossSum result{found.losses_p.sum(), metrics(policy, found, pairs)};
  if (config_.rpo_alpha > 0) {
    auto own = config_.rpo_alpha_by_row ? policy.row_losses().sum() : policy.token_loss() * pairs;
    result.sum = result.sum + own * config_.rpo_alpha;
  }
  add_router_losses(result, outputs, router_, pairs, {sequence_, 2 * pairs_in(outputs.batch)});
  count_once(result, sequence_);
  return result;
}

// If a loss uses means, so do the logged metrics; ms-swift's DPO logs sums anyway.
bool PreferenceLoss::reports_means() const {
  bool means = pair_loss_traits(config_.losses.front().name).uses_mean_logps;
  return means && (config_.method != Preference::dpo || names_ == Layout::factory);
}

std::vector<Metric> PreferenceLoss::metrics(const CompletionLogps& policy, const Found& found, double pairs) const {
  at::NoGradGuard no_grad;
  auto mean_of = [&](int64_t first) {
    return every_other(policy.sums_s, first) / every_other(policy.counts_s, first).clamp_min(1);
  };
  auto logps_of = [&](int64_t first) { return reports_means() ? mean_of(first) : every_other(policy.sums_s, first); };
  auto mean_logit = [&](int64_t first) {
    return every_other(policy.mean_logits_s, first).sum() / every_other(policy.counts_s, first).sum().clamp_min(1);
  };
  std::vector<Metric> list;
  auto each = [&](const char* name, const Tensor& values_p) { list.push_back({name, values_p.to(at::kFloat).sum(), pairs}); };
  auto whole = [&](const char* name, const Tensor& mean) { list.push_back({name, mean * pairs, pairs}); };
  if (!reference_ || !reference_->is_trained_model()) {
    each("rewards/chosen", found.chosen_rewards_p);
    each("rewards/rejected", found.rejected_rewards_p);
    each("rewards/accuracies", found.chosen_rewards_p > found.rejected_rewards_p);
    each("rewards/margins", found.chosen_rewards_p - found.rejected_rewards_p);
  }
  each("logps/chosen", logps_of(0));
  each("logps/rejected", logps_of(1));
  whole("logits/chosen", mean_logit(0));
  whole("logits/rejected", mean_logit(1));
  if (names_ == Layout::factory) {
    if (!found.odds_p.defined()) return list;
    each("sft_loss", policy.row_losses());
    each("odds_ratio_loss", -at::log_sigmoid(found.odds_p));
    return list;
  }
  auto has = [&](std::string_view loss) {
    return std::ranges::any_of(config_.losses, [&](const auto& each) { return each.name == loss; });
  };
  if (config_.method == Preference::dpo && has("ipo"))
    each("logps_mean/chosen", mean_of(0)), each("logps_mean/rejected", mean_of(1));
  if (config_.rpo_alpha > 0 || has("sft"))
    whole("nll_loss", policy.token_loss());
  else if (config_.method != Preference::dpo)
    whole("nll_loss", at::zeros({}, policy.sums_s.options()));  // as in CPO
  if (found.odds_p.defined()) each("log_odds_ratio", at::log_sigmoid(found.odds_p)), each("log_odds_chosen", found.odds_p);
  return list;
}

Json PreferenceLoss::state() const {
  if (baseline_count_ == 0) return nullptr;
  return {{"baseline", baseline_.item<float>()}, {"baseline_count", baseline_count_}};
}

void PreferenceLoss::restore(const Json& state) {
  baseline_ = at::full({}, state.at("baseline").get<float>(), at::kFloat);
  baseline_count_ = state.at("baseline_count").get<double>();
}

}  // namespace hone::train
