// The progress of a run: transformers' trainer_state.json, and hone's own counters.
#pragma once
#include <optional>
#include <string>

#include "hone/base/json.h"
#include "hone/train/config.h"

namespace hone::train {

struct TrainState {
  int64_t global_step = 0, max_steps = 0;
  double epoch = 0;
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::string best_model_checkpoint, last_model_checkpoint;
  Json log_history = Json::array();
  int64_t tokens_seen = 0, samples_seen = 0;
  double loss_sum = 0;  // over all steps taken, for train_loss
  int64_t loss_steps = 0;
  double total_flos = 0;
  int64_t skipped_steps = 0, skips_in_a_row = 0;
  int64_t failed_saves = 0, failed_saves_in_a_row = 0;
  int64_t evaluations_without_gain = 0;
  Json log_window;                     // steps not logged yet, so that a resumed run logs the same means
  Json recent_losses = Json::array();  // what a loss spike is compared with
  Json loss_state;                     // of Loss::state

  // trainer_state.json, keys as transformers sorts them.
  Json to_transformers(const TrainerConfig& config) const;
  // Complete: from_json restores everything that to_json writes.
  Json to_json() const;
  static TrainState from_json(const Json& json);
};

// A path as ms-swift and LLaMA-Factory write it: null if there is none.
Json path_or_null(const std::string& path);

}  // namespace hone::train
