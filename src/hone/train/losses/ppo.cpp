#include "hone/train/losses/ppo.h"

#include "hone/train/losses/token_logps.h"

namespace hone::train {

// The completions' tokens end to end.
struct PpoLoss::Policy {
  Tensor log_ratio, ratio, plain, clipped;
  Tensor divergence;  // from the reference, weighted; undefined where it went into the rewards
  Tensor entropies;   // undefined: nobody asks

  Tensor losses() const { return at::max(plain, clipped); }
};

// The states before each token, and behind the last one where it counts.
struct PpoLoss::Values {
  Tensor predicted, returns, plain, clipped;
  double share = 1;

  Tensor losses() const { return at::max(plain, clipped); }
};

PpoLoss::Policy PpoLoss::policy_of(const ForwardOutputs& outputs, const PpoPayload& payload) const {
  const auto& batch = outputs.batch;
  const auto logps_t = outputs.target_logps(config_.temperature).logps_t;
  const auto labelled = ops::labelled_positions(batch.targets_t, batch.target_count);
  const auto at_tokens = [&](const Tensor& values_t) { return values_t.index_select(0, labelled); };
  const auto logps_n = at_tokens(logps_t), advantages_n = at_tokens(payload.advantages_t);
  Policy policy;
  policy.log_ratio = logps_n - at_tokens(payload.old_logps_t);
  policy.ratio = policy.log_ratio.exp();
  policy.plain = -advantages_n * policy.ratio;
  policy.clipped = -advantages_n * policy.ratio.clamp(1 - config_.cliprange, 1 + config_.cliprange);
  if (payload.ref_logps_t.defined() && payload.kl_weight > 0) {
    auto moved = at_tokens(payload.ref_logps_t) - logps_n;
    policy.divergence = (moved.exp() - moved - 1) * static_cast<double>(payload.kl_weight);
  }
  if (config_.report_entropy)
    policy.entropies =
        at_tokens(token_entropies(outputs.model, outputs.hidden_th.detach(), batch.targets_t, 1 / config_.temperature));
  return policy;
}

PpoLoss::Values PpoLoss::values_of(const ForwardOutputs& outputs, const PpoPayload& payload) const {
  const auto states = (payload.is_state_t > 0).nonzero().squeeze(1);
  const auto at_states = [&](const Tensor& values_t) { return values_t.index_select(0, states); };
  Values values;
  values.predicted = outputs.values(states);
  values.returns = at_states(payload.returns_t);
  const auto before = at_states(payload.values_t);
  const auto near = at::min(at::max(values.predicted, before - config_.cliprange_value), before + config_.cliprange_value);
  values.plain = (values.predicted - values.returns).square();
  values.clipped = (near - values.returns).square();
  values.share = static_cast<double>(payload.value_share);
  return values;
}

void PpoLoss::report(const Policy& policy, const Values& values, std::vector<Metric>& metrics) const {
  at::NoGradGuard no_grad;
  const auto tokens = static_cast<double>(policy.ratio.size(0)), states = static_cast<double>(values.predicted.size(0));
  const auto add = [&](const char* name, const char* legacy, const Tensor& sum, double count) {
    metrics.push_back({named(name, legacy), sum.detach(), count});
  };
  add("loss/policy_avg", "ppo/loss/policy", policy.losses().sum(), tokens);
  add("loss/value_avg", "ppo/loss/value", values.losses().sum() / 2, states);
  add("policy/approxkl_avg", "ppo/policy/approxkl", policy.log_ratio.square().sum() / 2, tokens);
  add("policy/clipfrac_avg", "ppo/policy/clipfrac", (policy.clipped > policy.plain).sum().to(at::kFloat), tokens);
  add("val/clipfrac_avg", "ppo/val/clipfrac", (values.clipped > values.plain).sum().to(at::kFloat), states);
  if (policy.entropies.defined()) add("policy/entropy_avg", "ppo/policy/entropy", policy.entropies.sum(), tokens);
  if (config_.legacy_names) {
    add("", "ppo/val/vpred", values.predicted.sum(), states);
    add("", "ppo/returns/mean", values.returns.sum(), states);
    return;
  }
  const auto ratio = policy.ratio.sum() / std::max(tokens, 1.0);
  metrics.push_back({"val/ratio", ratio, 1});
  metrics.push_back({"val/ratio_var", ratio.square(), 1});  // add_derived_metrics takes the square of the mean off
}

LossSum PpoLoss::loss(const ForwardOutputs& outputs, const PpoPayload& payload) {
  LossSum result{{}, batch_metrics(outputs.batch)};
  const auto policy = policy_of(outputs, payload);
  const auto values = values_of(outputs, payload);
  result.sum = policy.losses().sum() + config_.vf_coef * values.share * 0.5 * values.losses().sum();
  if (policy.divergence.defined()) result.sum = result.sum + policy.divergence.sum();
  if (config_.ratio_threshold && policy.ratio.size(0) > 0)
    result.sum = result.sum * (policy.ratio.detach().mean() <= *config_.ratio_threshold).to(at::kFloat);
  report(policy, values, result.metrics);
  return result;
}

// The spread of the batches' mean ratios.
void PpoLoss::add_derived_metrics(Json& values, const std::string& prefix) const {
  const auto mean = prefix + "val/ratio", spread = prefix + "val/ratio_var";
  if (!values.contains(mean) || !values.contains(spread)) return;
  const auto ratio = values[mean].get<double>();
  values[spread] = std::max(0.0, values[spread].get<double>() - ratio * ratio);
}

}  // namespace hone::train
