#include "hone/train/stepwise_trainer.h"

#include <cmath>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/device/generator.h"
#include "hone/model/inference/fused_projection.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/train/distributed/make_strategy.h"
#include "hone/train/distributed/parallelize_model.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/loop/micro_batches.h"
#include "hone/train/loop/parameter_updates.h"
#include "hone/train/losses/token_logps.h"
#include "hone/train/methods/reference.h"

namespace hone::train {
namespace {

void prepare(model::CausalLM& model, const StepwiseConfig& config) {
  if (model.dtype() == at::kHalf)
    throw UserError(ExitCode::usage, "the model's weights are float16, whose gradients need a scaled loss",
                    "load it in bfloat16 or float32");
  device::seed(config.seed);
  model::apply_activation_checkpointing(model, config.gradient_checkpointing ? model::Recompute::block : model::Recompute::none);
}

// The job settings that the components of a run need.
TrainingJob job_of(const StepwiseConfig& config, const model::CausalLM& model) {
  TrainingJob job;
  job.groups = config.groups;
  job.parallel = config.parallel;
  job.load.device = model.device();
  job.trainer.no_master_weights = !config.master_weights;
  return job;
}

}  // namespace

StepwiseTrainer::StepwiseTrainer(std::shared_ptr<model::CausalLM> model, const StepwiseConfig& config,
                                 std::shared_ptr<const DistributedContext> processes)
    : job_(job_of(config, *model)), processes_(std::move(processes)), schedule_(config.schedule) {
  prepare(*model, config);
  if (!processes_) processes_ = std::make_shared<DistributedContext>(DistributedContext::join({}, {}, model->device()));
  if (processes_->shards_model() || processes_->is_tensor_or_expert_parallel()) require_elementwise(config.optimizer.name);
  auto tuning = config.tuner;
  tuning.share_base_storage = processes_->splits_weights();
  tuner::require_modules(*model, tuning);
  auto tuned = tuner::apply_tuner(*model, tuning);
  auto& policy = models_.add(parallelize_model(job_, *processes_, kPolicy, std::move(model), std::move(tuned)));
  if (!processes_->group && !policy.sharded) model::join_trained_projections(*policy.model);
  auto updates = make_updates(job_, config.optimizer, *processes_, models_, config.schedule.total_steps);
  masters_ = std::move(updates.masters);
  optimizer_ = std::move(updates.optimizer);
  strategy_ = make_strategy(job_, *processes_, models_, updates.working, optimizer_->groups());
  state_.max_steps = config.schedule.total_steps;
  if (const int rank = processes_->dropout_rank(); rank > 0) device::seed(config.seed + static_cast<uint64_t>(rank));
}

data::Batch StepwiseTrainer::placed(const data::Batch& batch) const {
  const auto* sequence = models_.policy().sequence.get();
  return (sequence ? own_part(batch, *sequence) : batch).to(model().device());
}

// Existing gradients were divided by fewer items.
double StepwiseTrainer::count_items(double num_items) {
  if (finished_ && strategy_->size() > 1)
    throw UserError(ExitCode::usage, "gradients are added to those that all processes have summed already",
                    "call step() and zero_grad() first; clip_grad_norm() comes after the last forward_backward() of an update");
  at::NoGradGuard no_grad;
  const double before = num_items_;
  num_items_ = std::max(num_items_ + strategy_->sum(strategy_->counts_rows() ? num_items : 0), 1.0);
  grad_norm_.reset();
  if (before > 0)
    for (const auto& group : optimizer_->groups())
      for (const auto& parameter : group.parameters)
        if (parameter.grad().defined()) parameter.grad().mul_(before / num_items_);
  return 1 / num_items_;
}

StepResult StepwiseTrainer::forward_backward(const std::vector<data::Batch>& batches, Loss& loss) {
  std::vector<data::Batch> parts;
  double num_items = 0;
  for (const auto& batch : batches) num_items += loss.num_items(parts.emplace_back(placed(batch)));
  const double before = num_items_, factor = count_items(num_items);
  model().set_training(true);
  StepMetrics metrics(loss, *strategy_);
  const MicroBatchHooks hooks{.loss_factor = [factor] { return factor; },
                              .before_backward = [this](bool) { strategy_->before_micro_batch(false); },
                              .after_backward = [this] { end_pass(); }};
  const auto pass = [&](const data::Batch& part, double scale) {
    auto found = forward_loss(model(), loss, part);
    backward_loss(found, scale);
    return found;
  };
  if (auto* pipeline = strategy_->pipeline())
    run_pipeline_passes(*pipeline, loss, parts, hooks, metrics);
  else
    run_passes(parts, pass, hooks, metrics);
  for (const auto& part : parts) {
    state_.tokens_seen += part.tokens_t.size(0);
    state_.samples_seen += part.sample_count;
  }
  return metrics.read(at::zeros({}), std::max(num_items_ - before, 1.0), false, *strategy_).wait();
}

Tensor StepwiseTrainer::read_pass(const data::Batch& batch, std::optional<int64_t> columns,
                                  const std::function<Tensor(const ForwardOutputs&)>& read) {
  const auto* sequence = models_.policy().sequence.get();
  const int64_t tokens = batch.tokens_t.size(0);
  auto whole = [&](const ForwardOutputs& outputs) {
    const auto found = read(outputs);
    return sequence ? whole_rows(found, tokens, *sequence) : found;
  };
  const auto part = placed(batch);
  auto* pipeline = strategy_->pipeline();
  if (!pipeline) return whole(run_forward(model(), {.batch = part}));
  std::vector<int64_t> shape{tokens};
  if (columns) shape.push_back(*columns);
  return pipeline->begin_pass(part, shape, whole);
}

// Shards are gathered for one pass at a time.
void StepwiseTrainer::begin_pass() {
  if (std::exchange(pass_begun_, true) && models_.policy().sharded)
    throw UserError(ExitCode::usage, "a second pass before backward() of the first, of a model in shards",
                    "call backward() for each, gradients add up; zero_grad() gives a pass up");
  strategy_->before_micro_batch(false);
  model().set_training(true);
}

void StepwiseTrainer::end_pass() {
  strategy_->after_micro_batch();
  masters_.accumulate_master_grads();
}

Tensor StepwiseTrainer::logps(const data::Batch& batch, double temperature) {
  begin_pass();
  return read_pass(batch, {}, [=](const ForwardOutputs& outputs) { return outputs.target_logps(temperature).logps_t; });
}

Tensor StepwiseTrainer::evaluated_logps(const data::Batch& batch, double temperature) {
  EvaluationMode mode(model());
  return read_pass(batch, {}, [=](const ForwardOutputs& outputs) { return outputs.target_logps(temperature).logps_t; });
}

std::pair<Tensor, Tensor> StepwiseTrainer::routed_logps(const data::Batch& batch, double temperature) {
  const auto& experts = model().config().experts;
  if (experts.count == 0 || strategy_->pipeline())
    throw UserError(ExitCode::usage,
                    experts.count == 0 ? "routed experts of a model that has no experts" : "routed experts of pipeline stages",
                    experts.count == 0 ? "take evaluated log-probabilities" : "leave pp out, or take those of the sampler");
  EvaluationMode mode(model());
  const auto part = placed(batch);
  const auto outputs = run_forward(model(), {.batch = part, .router_logits = true});
  auto logps_t = outputs.target_logps(temperature).logps_t;
  auto routed_tlk = ops::routed_experts(outputs.router_logits, experts.num_experts_per_tok);
  if (part.routed_experts_tlk.defined()) {
    const auto replayed_tlk = part.routed_experts_tlk.to(routed_tlk.device());
    routed_tlk = at::where(replayed_tlk < 0, routed_tlk, replayed_tlk);
  }
  if (const auto* sequence = models_.policy().sequence.get()) {
    const int64_t tokens = batch.tokens_t.size(0);
    logps_t = whole_rows(logps_t, tokens, *sequence);
    routed_tlk = whole_rows(routed_tlk, tokens, *sequence);
  }
  return {logps_t, routed_tlk};
}

Tensor StepwiseTrainer::logits(const data::Batch& batch, const Tensor& ids_tk) {
  if (processes_->tensor)
    throw UserError(ExitCode::usage, "logits of a model whose head is sharded across tensor parallel ranks",
                    "take log-probabilities of targets, or leave tp out");
  const int64_t tokens = batch.tokens_t.size(0), vocabulary = model().config().vocab_size;
  Tensor ids;
  if (ids_tk.defined()) {
    if (ids_tk.dim() != 2 || ids_tk.size(0) != tokens || ids_tk.scalar_type() != at::kLong)
      throw UserError(ExitCode::usage, fmt::format("token ids are {} {}", ids_tk.toString(), fmt::join(ids_tk.sizes(), " x ")),
                      fmt::format("expected 64-bit integers, a row for each of {} positions", tokens));
    if (ids_tk.numel() > 0 && (ids_tk.min().item<int64_t>() < 0 || ids_tk.max().item<int64_t>() >= vocabulary))
      throw UserError(ExitCode::bad_data,
                      fmt::format("token ids are from {} to {}; the vocabulary has 0 to {}", ids_tk.min().item<int64_t>(),
                                  ids_tk.max().item<int64_t>(), vocabulary - 1),
                      "name tokens of this model");
    const auto* sequence = models_.policy().sequence.get();
    ids = (sequence ? own_rows(ids_tk, *sequence) : ids_tk).to(model().device());
  }
  begin_pass();
  return read_pass(batch, ids.defined() ? ids.size(1) : std::as_const(model()).head().weight.size(0),
                   [&](const ForwardOutputs& outputs) { return token_logits(outputs.model, outputs.hidden_th, ids); });
}

Tensor StepwiseTrainer::base_logps(const data::Batch& batch, double temperature) {
  const auto& adapter = tuned().adapter;
  if (!adapter || !adapter->initial.empty())
    throw UserError(ExitCode::usage, "there is no base model under the trained weights",
                    "use a separate reference: load the model once more");
  Tensor logps;
  base_as_reference(tuned())->with_reference(model(), [&](model::CausalLM&) {
    logps = read_pass(batch, {}, [=](const ForwardOutputs& outputs) { return outputs.target_logps(temperature).logps_t; });
  });
  return logps;
}

void StepwiseTrainer::backward(const Tensor& loss_sum, double num_items) {
  const auto* sequence = models_.policy().sequence.get();  // whose processes all count full rows
  const auto loss = loss_sum * count_items(sequence ? num_items / sequence->size() : num_items);
  if (auto* pipeline = strategy_->pipeline())
    pipeline->end_passes(loss);
  else
    loss.backward();
  pass_begun_ = false;
  end_pass();
}

StepResult StepwiseTrainer::evaluate(const std::vector<data::Batch>& batches, Loss& loss) {
  EvaluationMode mode(model());
  double num_items = 0;
  StepMetrics metrics(loss, *strategy_);
  for (const auto& batch : batches) {
    const auto part = placed(batch);
    num_items += loss.num_items(part);
    auto* pipeline = strategy_->pipeline();
    if (auto found = pipeline ? pipeline->evaluate(loss, part) : forward_loss(model(), loss, part)) metrics.add(*found);
  }
  num_items = strategy_->sum(strategy_->counts_rows() ? num_items : 0);
  return metrics.read(at::zeros({}), std::max(num_items, 1.0), false, *strategy_).wait();
}

// The last pass is not known in advance: full gradients are reduced on request. Sharded ones were reduced in each pass.
void StepwiseTrainer::finish_gradients() {
  if (std::exchange(finished_, true)) return;
  if (!models_.policy().sharded) strategy_->before_micro_batch(true);
  strategy_->finish_gradients();
}

double StepwiseTrainer::clip_grad_norm(double max_norm) {
  finish_gradients();
  if (!grad_norm_) optimizer_->add_penalty_gradients();
  grad_norm_ = strategy_->clip_grad_norm(*optimizer_, max_norm).item<double>();
  return *grad_norm_;
}

bool StepwiseTrainer::step(std::optional<double> learning_rate) {
  if (num_items_ == 0)
    throw UserError(ExitCode::usage, "step() without gradients", "call forward_backward() first, and zero_grad() after the step");
  if (!grad_norm_) clip_grad_norm(0);
  ++state_.global_step;
  if (!std::isfinite(*grad_norm_)) {
    ++state_.skipped_steps;
    log::warning("step {}: the gradient is not finite; the step is skipped and the weights are unchanged", state_.global_step);
    return false;
  }
  update_weights(*optimizer_, masters_, *strategy_, learning_rate.value_or(this->learning_rate()));
  return true;
}

void StepwiseTrainer::zero_grad() {
  optimizer_->zero_grad();
  if (auto* pipeline = strategy_->pipeline()) pipeline->forget_passes();
  num_items_ = 0;
  finished_ = pass_begun_ = false;
  grad_norm_.reset();
}

}  // namespace hone::train
