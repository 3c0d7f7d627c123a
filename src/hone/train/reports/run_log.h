// Reports of a run: dictionaries on the console (a short line on a terminal), one JSON line per event in the front end's log
// file, TensorBoard scalars.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"
#include "hone/train/loop/train_state.h"
#include "hone/train/reports/event_file.h"
#include "hone/train/run_folder.h"

namespace hone::train {

fs::path event_folder(const TrainerConfig& config, const RunFolder& run);  // of the TensorBoard files

class RunLog {
 public:
  // If silent, keeps only the history: the first of several processes reports for all.
  RunLog(const TrainerConfig& config, const RunFolder& run, at::Device device, int64_t first_step, bool silent = false);

  // Logs one event: `values` are loss, grad_norm, learning_rate …, or eval_loss …, or at the end train_runtime …; adds position,
  // times and memory in the front end's format, and appends the event to the state's history.
  void record(const Json& values, TrainState& state);
  // A line of the log file only: ms-swift's summary at the end.
  void append(const Json& line);

  double seconds() const;  // since this process began to train

 private:
  void publish(const Json& values, const Json& item, const TrainState& state);
  Json swift_line(const Json& values, const TrainState& state) const;
  Json factory_line(const Json& values, const TrainState& state) const;
  double remaining_seconds(const TrainState& state) const;

  const TrainerConfig& config_;
  fs::path file_;
  at::Device device_;
  int64_t first_step_;
  bool silent_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::unique_ptr<EventFile> events_;
};

// "step 5/40  epoch 0.12  loss 1.234  lr 1.00e-04": an event on a terminal, with as many numbers as fit.
std::string compact_line(const Json& values, const TrainState& state, size_t width);
// {'loss': 1.5, 'epoch': 0.1}: as Python prints a dict, which people grep for.
std::string python_repr(const Json& value);
Json round_floats(const Json& value, int digits);

// ***** eval metrics ***** with aligned keys, as transformers prints them.
std::string metrics_table(const std::string& split, const Json& metrics);

}  // namespace hone::train
