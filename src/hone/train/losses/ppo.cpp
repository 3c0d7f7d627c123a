#include "hone/train/losses/ppo.h"

#include "hone/base/error.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {

// The completions' tokens, concatenated.
struct PpoLoss::Policy {
  Tensor log_ratio, ratio, plain, clipped;
  Tensor divergence;  // KL to the reference, weighted; undefined if it is part of the rewards
  Tensor entropies;   // undefined: not requested

  Tensor losses() const { return at::max(plain, clipped); }
};

// The states before each token, and after the last one if it counts.
struct PpoLoss::Values {
  Tensor predicted, returns, plain, clipped;
  double share = 1;

  Tensor losses() const { return at::max(plain, clipped); }
};

// The loss of a value model that has its own passes through the pipeline stages.
class PpoLoss::ValueLoss final : public LossOf<PpoPayload> {
 public:
  explicit ValueLoss(const PpoLoss& ppo) : ppo_(ppo) {}
  double num_items(const data::Batch& batch) const override { return ppo_.num_items(batch); }
  LossSum loss(const ForwardOutputs& outputs, const PpoPayload& payload) override {
    const auto values = ppo_.values_of(outputs, payload);
    LossSum result{ppo_.value_term(values), {}};
    ppo_.report(values, result.metrics);
    count_once(result, ppo_.sequence_);
    return result;
  }

 private:
  const PpoLoss& ppo_;
};

PpoLoss::PpoLoss(const PpoLossConfig& config, model::CausalLM* value_model)
    : config_(config), value_model_(value_model), value_loss_(value_model ? std::make_unique<ValueLoss>(*this) : nullptr) {}
PpoLoss::~PpoLoss() = default;

Loss* PpoLoss::value_loss() {
  HONE_CHECK(!config_.ratio_threshold, "a separate pass of the value model does not know the policy's ratios");
  return value_loss_.get();
}

ForwardRequest PpoLoss::request(const data::Batch& batch) const {
  return {.batch = batch,
          .value_model = value_model_,
          .rows_r = sequence_ ? Tensor() : rows_read(batch, /*with_ends=*/true),
          .recorded = batch.payload ? data::payload_of<PpoPayload>(batch).recorded : nullptr};
}

// Positions of a sequence may be on several processes: each finds the loss of all of them, with gradients of its own.
Tensor PpoLoss::whole(const Tensor& values_t, const data::Batch& batch) const {
  return sequence_ ? whole_rows(values_t, batch.segments.total(), *sequence_) : values_t;
}

PpoLoss::Policy PpoLoss::policy_of(const ForwardOutputs& outputs, const PpoPayload& payload) const {
  const auto& batch = outputs.batch;
  const auto logps_t = whole(outputs.target_logps(config_.temperature).logps_t, batch);
  const auto labelled = ops::labelled_positions(whole(batch.targets_t, batch), sequence_ ? -1 : batch.target_count);
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
    policy.entropies = at_tokens(
        whole(token_entropies(outputs.model, outputs.hidden_th.detach(), batch.targets_t, 1 / config_.temperature), batch));
  return policy;
}

PpoLoss::Values PpoLoss::values_of(const ForwardOutputs& outputs, const PpoPayload& payload) const {
  const auto states = (payload.is_state_t > 0).nonzero().squeeze(1);
  const auto at_states = [&](const Tensor& values_t) { return values_t.index_select(0, states); };
  Values values;
  if (sequence_) {
    const auto& tokens_t = outputs.batch.tokens_t;
    values.predicted = at_states(whole(outputs.values(at::arange(tokens_t.size(0), tokens_t.options())), outputs.batch));
  } else {
    values.predicted = outputs.values(states);
  }
  values.returns = at_states(payload.returns_t);
  const auto before = at_states(payload.values_t);
  const auto near = at::min(at::max(values.predicted, before - config_.cliprange_value), before + config_.cliprange_value);
  values.plain = (values.predicted - values.returns).square();
  values.clipped = (near - values.returns).square();
  values.share = static_cast<double>(payload.value_share);
  return values;
}

Tensor PpoLoss::value_term(const Values& values) const { return config_.vf_coef * values.share * 0.5 * values.losses().sum(); }

void PpoLoss::report(const Values& values, std::vector<Metric>& metrics) const {
  at::NoGradGuard no_grad;
  const auto states = static_cast<double>(values.predicted.size(0));
  const auto add = [&](const std::string& name, const Tensor& sum) { metrics.push_back({name, sum.detach(), states}); };
  add(named("loss/value_avg", "ppo/loss/value"), values.losses().sum() / 2);
  add(named("val/clipfrac_avg", "ppo/val/clipfrac"), (values.clipped > values.plain).sum().to(at::kFloat));
  if (!config_.legacy_names) return;
  add("ppo/val/vpred", values.predicted.sum());
  add("ppo/returns/mean", values.returns.sum());
}

void PpoLoss::report(const Policy& policy, std::vector<Metric>& metrics) const {
  at::NoGradGuard no_grad;
  const auto tokens = static_cast<double>(policy.ratio.size(0));
  const auto add = [&](const char* name, const char* legacy, const Tensor& sum) {
    metrics.push_back({named(name, legacy), sum.detach(), tokens});
  };
  add("loss/policy_avg", "ppo/loss/policy", policy.losses().sum());
  add("policy/approxkl_avg", "ppo/policy/approxkl", policy.log_ratio.square().sum() / 2);
  add("policy/clipfrac_avg", "ppo/policy/clipfrac", (policy.clipped > policy.plain).sum().to(at::kFloat));
  if (policy.entropies.defined()) add("policy/entropy_avg", "ppo/policy/entropy", policy.entropies.sum());
  if (config_.legacy_names) return;
  const auto ratio = policy.ratio.sum() / std::max(tokens, 1.0);
  metrics.push_back({"val/ratio", ratio, 1});
  metrics.push_back({"val/ratio_var", ratio.square(), 1});  // add_derived_metrics takes the square of the mean off
}

LossSum PpoLoss::loss(const ForwardOutputs& outputs, const PpoPayload& payload) {
  LossSum result{{}, batch_metrics(outputs.batch)};
  const auto policy = policy_of(outputs, payload);
  result.sum = policy.losses().sum();
  if (!value_model_ || outputs.value_model) {
    const auto values = values_of(outputs, payload);
    result.sum = result.sum + value_term(values);
    report(values, result.metrics);
  }
  if (policy.divergence.defined()) result.sum = result.sum + policy.divergence.sum();
  if (config_.ratio_threshold && policy.ratio.size(0) > 0)
    result.sum = result.sum * (policy.ratio.detach().mean() <= *config_.ratio_threshold).to(at::kFloat);
  report(policy, result.metrics);
  count_once(result, sequence_);
  return result;
}

// The variance of the batches' mean ratios.
void PpoLoss::add_derived_metrics(Json& values, const std::string& prefix) const {
  const auto mean = prefix + "val/ratio", spread = prefix + "val/ratio_var";
  if (!values.contains(mean) || !values.contains(spread)) return;
  const auto ratio = values[mean].get<double>();
  values[spread] = std::max(0.0, values[spread].get<double>() - ratio * ratio);
}

}  // namespace hone::train
