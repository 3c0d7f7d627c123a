// Saves and restores a run's checkpoints: weights, optimizer, data position, random states; then retention and symlinks.
#pragma once
#include <functional>
#include <future>

#include "hone/data/batches/loader.h"
#include "hone/optim/lr_scheduler.h"
#include "hone/optim/optimizer.h"
#include "hone/train/checkpoints/node_replication.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/loop/precision.h"
#include "hone/train/loop/train_state.h"
#include "hone/train/run_folder.h"

namespace hone::train {

// Writes and reads trained weights in the formats of other programs: an adapter's PEFT files or a full model.
struct WeightFiles {
  std::function<void(const fs::path& folder)> save;
  std::function<void(const fs::path& folder)> load;
  std::function<void(const fs::path& folder)> save_assets;  // tokenizer, args.json, model card … copied next to the weights
  // Runs `write` on the first process while the others contribute their parts of the weights; collective. Unset: all weights are
  // on the first process.
  std::function<void(const std::function<void()>& write)> gather = {};
  // A full parameter, within `write` of a model that is saved completely.
  std::function<Tensor(const Tensor& parameter)> read = {};
  // Copies the weights as they are now; what it returns writes the copy while training continues. Unset: they are written before
  // training continues, because they are on several processes, or because an adapter is small.
  std::function<std::function<void(const fs::path& folder)>()> copy = {};
};

// Everything besides the weights that determines how the run continues.
struct ResumableState {
  data::Loader& loader;
  optim::Optimizer& optimizer;
  optim::LrScheduler& lr_scheduler;
  MasterWeights& masters;
  GradScaler& grad_scaler;
  ParallelStrategy& strategy;
  ParallelStrategy& save_group;  // the same processes, with collectives of the thread that writes
  at::Device device;
  const NodeReplicator* replicator = nullptr;  // null: one folder for all nodes
};

class CheckpointManager {
 public:
  CheckpointManager(const TrainerConfig& config, const RunFolder& run, WeightFiles weights, ResumableState resumable)
      : config_(config), run_(run), weights_(std::move(weights)), resumable_(resumable) {}

  // Captures the data of a checkpoint of `state`. With async_save it is copied and written by another thread, one save at a time,
  // else by wait(). Both are collective; the first process writes shared files.
  void begin(const TrainState& state);
  bool written() const;  // this process has written its part; other processes may still write
  // Waits for a pending save and records it in `state`; returns whether there is a new checkpoint. A failed save (full disk …) is
  // logged and counted, and the run continues; three in a row throw UserError(out_of_space).
  bool wait(TrainState& state);
  int64_t newest() const { return pending_ ? pending_->step : saved_; }  // the step that is saved or being saved; -1: none

  // `checkpoint` is already verified. With resume_only_model only the weights and the data position.
  TrainState restore(const fs::path& checkpoint);
  void load_weights(const fs::path& checkpoint) const { weights_.load(checkpoint); }

 private:
  struct Content;
  struct PendingSave {
    int64_t step = 0;
    fs::path folder;
    bool best = false;
    std::future<std::string> failure;  // empty when all went well
  };
  std::string stage(const TrainState& state, const std::string& last_checkpoint, Content& content);
  void collect(const TrainState& state, Content& content);
  std::string write(Content& content);
  void publish(const fs::path& folder, const std::string& best);
  bool is_main() const { return resumable_.strategy.rank() == 0; }
  bool writes_folder() const { return is_main() || (resumable_.replicator && resumable_.replicator->leads()); }

  const TrainerConfig& config_;
  const RunFolder& run_;
  WeightFiles weights_;
  ResumableState resumable_;
  int64_t saved_ = -1;
  std::optional<PendingSave> pending_;
};

}  // namespace hone::train
