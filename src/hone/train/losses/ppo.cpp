#include "hone/train/losses/ppo.h"

#include "hone/model/pooling.h"
#include "hone/train/losses/completion_logps.h"
#include "hone/train/losses/policy.h"
#include "hone/train/losses/token_logps.h"
#include "hone/train/methods/forward_input.h"

namespace hone::train {
namespace {

Tensor label_of_each_token(const data::Batch& batch, PpoField field, const Tensor& sequence_n) {
  std::vector<float> values;
  for (const auto& labels : batch.sequence_labels) values.push_back(labels.at(field));
  return at::tensor(values).to(sequence_n.device()).index_select(0, sequence_n);
}

}  // namespace

// Values are float32 and nothing is dropped out: a value is compared with itself a few updates earlier.
Tensor state_values(model::CausalLM& policy, model::CausalLM* value_model, const Tensor& hidden_th, const data::Batch& batch,
                    const Tensor& positions_n) {
  auto& model = value_model ? *value_model : policy;
  const auto states_th = value_model ? value_model->hidden_states(forward_input(batch)) : hidden_th;
  const auto states_nh = states_th.index_select(0, positions_n);
  if (const auto* head = model.value_head()) return at::linear(states_nh.to(at::kFloat), head->weight, head->bias).squeeze(1);
  return model::classification_logits(model, states_nh).select(1, 0);
}

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

PpoLoss::Policy PpoLoss::policy_of(model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch) const {
  const auto logps_t = logps_of_states(model, hidden_th, batch, config_.temperature);
  const auto labelled = ops::labelled_positions(batch.targets_t, batch.target_count);
  const auto at_tokens = [&](const Tensor& values_t) { return values_t.index_select(0, labelled); };
  const auto logps_n = at_tokens(logps_t), advantages_n = at_tokens(batch.experience_ct.select(0, kStateAdvantage));
  Policy policy;
  policy.log_ratio = logps_n - at_tokens(batch.old_logps_t);
  policy.ratio = policy.log_ratio.exp();
  policy.plain = -advantages_n * policy.ratio;
  policy.clipped = -advantages_n * policy.ratio.clamp(1 - config_.cliprange, 1 + config_.cliprange);
  if (batch.ref_logps_t.defined() && batch.sequence_labels.front().at(kKlWeight) > 0) {
    auto moved = at_tokens(batch.ref_logps_t) - logps_n;
    policy.divergence = (moved.exp() - moved - 1) *
                        label_of_each_token(batch, kKlWeight, at_tokens(sequence_ids(batch.segments, logps_n.device())));
  }
  if (config_.report_entropy)
    policy.entropies = at_tokens(token_entropies(model, hidden_th.detach(), batch.targets_t, 1 / config_.temperature));
  return policy;
}

PpoLoss::Values PpoLoss::values_of(model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch) const {
  const auto states = (batch.experience_ct.select(0, kIsState) > 0).nonzero().squeeze(1);
  const auto at_states = [&](ExperienceChannel channel) {
    return batch.experience_ct.select(0, channel).index_select(0, states);
  };
  Values values;
  values.predicted = state_values(model, value_model_, hidden_th, batch, states);
  values.returns = at_states(kStateReturn);
  const auto before = at_states(kStateValue);
  const auto near = at::min(at::max(values.predicted, before - config_.cliprange_value), before + config_.cliprange_value);
  values.plain = (values.predicted - values.returns).square();
  values.clipped = (near - values.returns).square();
  values.share = static_cast<double>(batch.sequence_labels.front().at(kValueShare));
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

LossSum PpoLoss::loss(model::CausalLM& model, const data::Batch& batch) {
  LossSum result;
  for (const auto& [name, value] : batch.metrics)
    result.metrics.push_back({name, at::full({}, value, at::TensorOptions().device(batch.tokens_t.device())), 1});
  const auto hidden_th = model.hidden_states(forward_input(batch));
  const auto policy = policy_of(model, hidden_th, batch);
  const auto values = values_of(model, hidden_th, batch);
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
