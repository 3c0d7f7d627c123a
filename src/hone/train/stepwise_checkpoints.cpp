// Checkpoints of custom training loops.
#include "hone/base/error.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/checkpoints/weight_files.h"
#include "hone/train/stepwise_trainer.h"

namespace hone::train {
namespace {

constexpr const char* kRunId = "loop";  // checkpoints of user-written loops are never resumed automatically

// The position of a loop in its data and schedules, as stored in a checkpoint.
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
      throw UserError(ExitCode::bad_checkpoint, "the checkpoint was saved without a loader and has no data position",
                      "load it without one");
    loader_->restore(state.at("rows"));
  }

 private:
  int64_t& lr_steps_;
  data::Loader* loader_;
};

}  // namespace

ResumableState StepwiseTrainer::resumable(data::Loader& position) {
  return {.loader = position,
          .optimizer = *optimizer_,
          .lr_scheduler = schedule_,
          .masters = masters_,
          .grad_scaler = scale_,
          .strategy = *strategy_,
          .save_group = *strategy_,
          .device = model().device()};
}

fs::path StepwiseTrainer::save(const fs::path& folder, const CheckpointAssets& assets, data::Loader* loader) {
  check_output_folder(folder);
  const TrainerConfig config;
  const RunFolder run{.root = folder, .run_id = kRunId};
  LoopPosition position(lr_steps_, loader);
  const auto weights = weight_files(job_, *processes_, models_.policy(), assets);
  state_.epoch = position.epoch();
  CheckpointManager manager(config, run, weights, resumable(position));
  manager.begin(state_);
  if (!manager.wait(state_))
    throw UserError(ExitCode::out_of_space, fmt::format("no checkpoint was written into {}", folder.string()),
                    "the line before says why; older checkpoints are untouched");
  return state_.last_model_checkpoint;
}

void StepwiseTrainer::save_weights(const fs::path& folder, const CheckpointAssets& assets) {
  const bool main = processes_->world.is_main();
  const auto weights = weight_files(job_, *processes_, models_.policy(), assets);
  if (main) check_output_folder(folder);
  auto write = [&] {
    fs::create_directories(folder);
    weights.save(folder);
    weights.save_assets(folder);
  };
  if (weights.gather)
    weights.gather(write);
  else if (main)
    write();
  strategy_->sum(0);  // on return the files exist on every process
}

void StepwiseTrainer::load(const fs::path& checkpoint, data::Loader* loader) {
  verify_checkpoint(checkpoint).or_throw(ExitCode::bad_checkpoint, checkpoint.string(), "name a folder that save() returned");
  const TrainerConfig config;
  const RunFolder run{.root = checkpoint.parent_path(), .run_id = kRunId};
  LoopPosition position(lr_steps_, loader);
  const CheckpointAssets none;
  const auto weights = weight_files(job_, *processes_, models_.policy(), none);
  CheckpointManager manager(config, run, weights, resumable(position));
  state_ = manager.restore(checkpoint);
  zero_grad();
}

}  // namespace hone::train
