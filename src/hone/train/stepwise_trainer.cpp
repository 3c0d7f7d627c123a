#include "hone/train/stepwise_trainer.h"

#include <cmath>

#include "hone/base/log.h"
#include "hone/device/device.h"
#include "hone/model/inference/fused_projection.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/loop/adalora.h"

namespace hone::train {
namespace {

constexpr const char* kRunId = "loop";  // checkpoints of loops that others write are never looked for by themselves

// The place of a loop in its data and rates, as a checkpoint keeps it.
class LoopPosition final : public data::Loader {
 public:
  LoopPosition(int64_t& lr_steps, data::Loader* loader) : lr_steps_(lr_steps), loader_(loader) {}
  data::Batch next() override { HONE_CHECK(false, "a position has no batches"); }
  int64_t batches_per_epoch() const override { return loader_ ? loader_->batches_per_epoch() : -1; }
  double epoch() const override { return loader_ ? loader_->epoch() : 0; }
  Json state() const override { return {{"lr_steps", lr_steps_}, {"rows", loader_ ? loader_->state() : Json()}}; }
  void restore(const Json& state) override {
    if (!state.contains("lr_steps"))
      throw UserError(ExitCode::bad_checkpoint, "the checkpoint was written by another training loop",
                      "continue it with the command that wrote it, or load its weights as an adapter");
    lr_steps_ = state.at("lr_steps").get<int64_t>();
    if (!loader_) return;
    if (state.at("rows").is_null())
      throw UserError(ExitCode::bad_checkpoint,
                      "the checkpoint was saved without a loader: nobody knows where in the data it was", "load it without one");
    loader_->restore(state.at("rows"));
  }

 private:
  int64_t& lr_steps_;
  data::Loader* loader_;
};

model::CausalLM& prepared(model::CausalLM& model, const StepwiseConfig& config) {
  if (model.dtype() == at::kHalf)
    throw UserError(ExitCode::usage, "the model's weights are float16, whose gradients need a scaled loss",
                    "load it in bfloat16 or float32");
  device::seed(config.seed);
  model::apply_activation_checkpointing(model, config.gradient_checkpointing ? model::Recompute::block : model::Recompute::none);
  return model;
}

MasterWeights masters_of(std::vector<optim::ParameterGroup>& groups, bool wanted) {
  return wanted ? MasterWeights(groups) : MasterWeights();
}

}  // namespace

StepwiseTrainer::StepwiseTrainer(model::CausalLM& model, const StepwiseConfig& config)
    : model_(prepared(model, config)), tuned_(tuner::apply_tuner(model, config.tuner)), schedule_(config.schedule) {
  model::join_trained_projections(model_);
  auto groups = optim::make_param_groups(tuned_.trainable, config.groups);
  masters_ = masters_of(groups, config.master_weights);
  optimizer_ =
      with_rank_allocation(optim::make_optimizer(config.optimizer, std::move(groups)), tuned_, config.schedule.total_steps);
  masters_.let_write(*optimizer_);
  state_.max_steps = config.schedule.total_steps;
}

// Gradients that are there already were divided by fewer items.
double StepwiseTrainer::count_items(double num_items) {
  at::NoGradGuard no_grad;
  const double before = num_items_;
  num_items_ = std::max(num_items_ + num_items, 1.0);
  grad_norm_.reset();
  if (before > 0)
    for (const auto& group : optimizer_->groups())
      for (const auto& parameter : group.parameters)
        if (parameter.grad().defined()) parameter.grad().mul_(before / num_items_);
  return 1 / num_items_;
}

StepResult StepwiseTrainer::forward_backward(const std::vector<data::Batch>& batches, Loss& loss) {
  double num_items = 0;
  for (const auto& batch : batches) num_items += loss.num_items(batch);
  const double factor = count_items(num_items);
  model_.set_training(true);
  StepMetrics metrics(loss.metrics_vary());
  for (const auto& batch : batches) {
    auto sum = forward_loss(model_, loss, batch.to(model_.device()));
    (sum.sum * factor).backward();
    masters_.accumulate_master_grads();
    metrics.add(sum);
    state_.tokens_seen += batch.tokens_t.size(0);
    state_.samples_seen += batch.sample_count;
  }
  return metrics.read(at::zeros({}), std::max(num_items, 1.0), false, alone_).wait();
}

void StepwiseTrainer::backward(const Tensor& loss_sum, double num_items) {
  (loss_sum * count_items(num_items)).backward();
  masters_.accumulate_master_grads();
}

StepResult StepwiseTrainer::evaluate(const std::vector<data::Batch>& batches, Loss& loss) {
  EvaluationMode mode(model_);
  double num_items = 0;
  StepMetrics metrics(loss.metrics_vary());
  for (const auto& batch : batches) {
    num_items += loss.num_items(batch);
    metrics.add(forward_loss(model_, loss, batch.to(model_.device())));
  }
  return metrics.read(at::zeros({}), std::max(num_items, 1.0), false, alone_).wait();
}

double StepwiseTrainer::clip_grad_norm(double max_norm) {
  if (!grad_norm_) optimizer_->add_penalty_gradients();
  grad_norm_ = optimizer_->clip_grad_norm(max_norm).item<double>();
  return *grad_norm_;
}

bool StepwiseTrainer::step(std::optional<double> learning_rate) {
  if (num_items_ == 0)
    throw UserError(ExitCode::usage, "step() without gradients", "call forward_backward() first, and zero_grad() after the step");
  if (!grad_norm_) clip_grad_norm(0);
  ++state_.global_step;
  if (!std::isfinite(*grad_norm_)) {
    ++state_.skipped_steps;
    log::warning("step {}: the gradient is not finite; the step is skipped, the weights stay as they were", state_.global_step);
    return false;
  }
  optimizer_->step(learning_rate.value_or(this->learning_rate()));
  masters_.after_update();
  return true;
}

void StepwiseTrainer::zero_grad() {
  optimizer_->zero_grad();
  num_items_ = 0;
  grad_norm_.reset();
}

ResumableParts StepwiseTrainer::resumable(data::Loader& position) {
  return {.loader = position,
          .optimizer = *optimizer_,
          .schedule = schedule_,
          .masters = masters_,
          .scale = scale_,
          .group = alone_,
          .savers = alone_,
          .device = model_.device()};
}

fs::path StepwiseTrainer::save(const fs::path& folder, const CheckpointAssets& assets, data::Loader* loader) {
  check_output_folder(folder);
  const TrainerConfig config;
  const RunFolder run{.root = folder, .run_id = kRunId};
  LoopPosition position(lr_steps_, loader);
  const WeightFiles weights{.save = [&](const fs::path& to) { tuner::save_trained(model_, tuned_, to); },
                            .load = {},
                            .save_assets = [&](const fs::path& to) { assets.write(to); }};
  state_.epoch = position.epoch();
  CheckpointManager manager(config, run, weights, resumable(position));
  manager.begin(state_);
  if (!manager.wait(state_))
    throw UserError(ExitCode::out_of_space, fmt::format("no checkpoint was written into {}", folder.string()),
                    "the line before says why; older checkpoints are untouched");
  return state_.last_model_checkpoint;
}

void StepwiseTrainer::load(const fs::path& checkpoint, data::Loader* loader) {
  verify_checkpoint(checkpoint).or_throw(ExitCode::bad_checkpoint, checkpoint.string(), "name a folder that save() returned");
  const TrainerConfig config;
  const RunFolder run{.root = checkpoint.parent_path(), .run_id = kRunId};
  LoopPosition position(lr_steps_, loader);
  const WeightFiles weights{
      .save = {}, .load = [&](const fs::path& from) { tuner::load_trained(model_, tuned_, from); }, .save_assets = {}};
  CheckpointManager manager(config, run, weights, resumable(position));
  state_ = manager.restore(checkpoint);
  zero_grad();
}

}  // namespace hone::train
