// Saves a run's checkpoints and restores them: weights, optimizer, data position, random states; then retention and links.
#pragma once
#include <functional>

#include "hone/data/loader.h"
#include "hone/optim/optimizer.h"
#include "hone/optim/schedule.h"
#include "hone/train/group.h"
#include "hone/train/precision.h"
#include "hone/train/run_folder.h"
#include "hone/train/train_state.h"

namespace hone::train {

// How what is trained becomes files that other programs read, and back: an adapter's PEFT files or a whole model.
struct WeightFiles {
  std::function<void(const fs::path& folder)> save;
  std::function<void(const fs::path& folder)> load;
  std::function<void(const fs::path& folder)> save_companions;  // tokenizer, args.json, model card … copied beside the weights
  // Runs `write` on the first process while the others bring their parts of the weights; every process calls it. Unset: all weights
  // are on the first process.
  std::function<void(const std::function<void()>& write)> gather = {};
};

// Everything besides the weights that decides how the run goes on.
struct ResumableParts {
  data::Loader& loader;
  optim::Optimizer& optimizer;
  optim::Schedule& schedule;
  MasterWeights& masters;
  LossScale& scale;
  Group& group;
  at::Device device;
};

class Saver {
 public:
  Saver(const TrainerConfig& config, const RunFolder& run, WeightFiles weights, ResumableParts parts)
      : config_(config), run_(run), weights_(std::move(weights)), parts_(parts) {}

  // A save that fails (full disk …) is a warning and a count in `state`, the run goes on; three in a row throw
  // UserError(out_of_space). Returns whether it was saved. Every process calls it; the first writes what all share.
  bool save(TrainState& state);
  // `checkpoint` is verified already. With resume_only_model the weights and the data position alone.
  TrainState restore(const fs::path& checkpoint);
  void load_weights(const fs::path& checkpoint) const { weights_.load(checkpoint); }

 private:
  bool write(const TrainState& state);
  void write_state(const fs::path& staging, const TrainState& state);
  bool together(const std::function<void()>& work);
  bool is_main() const { return parts_.group.rank() == 0; }

  const TrainerConfig& config_;
  const RunFolder& run_;
  WeightFiles weights_;
  ResumableParts parts_;
  std::string failure_;  // why the last save did not happen
};

}  // namespace hone::train
