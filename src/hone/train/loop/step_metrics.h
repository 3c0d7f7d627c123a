// Metrics of a step: summed on the device over its micro-batches, read by the host once.
#pragma once
#include <c10/core/Event.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

// The metrics of one step on the host.
struct StepResult {
  double loss = 0, grad_norm = 0, learning_rate = 0;
  std::map<std::string, std::pair<double, double>> metrics;  // name -> sum, count
  bool finite = true;
  bool stop_requested = false;  // on any process: all of them save the same step
};

// A step's numbers, which may still be computed on the device.
class StepReading {
 public:
  StepResult wait();

 private:
  friend class StepMetrics;
  Tensor values_;  // on the host: norm, loss, sums of the metrics; where they are summed here, then their counts
  std::optional<c10::Event> arrived_;  // none: they are on the host already
  std::vector<std::string> names_;
  std::vector<double> counts_;  // stops, then of each metric
  bool summed_here_ = false;
  double num_items_ = 1;
  ParallelStrategy* strategy_ = nullptr;
};

// Accumulates a step's losses and metrics. Reading them is the step's only synchronization with the device: one small copy.
// Several processes share one small all-reduce.
class StepMetrics {
 public:
  // `names_vary`: processes may have different metric names in the same step.
  explicit StepMetrics(bool names_vary = false) : names_vary_(names_vary) {}
  // In a pipeline, only one stage has metrics.
  StepMetrics(const Loss& loss, ParallelStrategy& strategy) : StepMetrics(loss.metrics_vary() || strategy.pipeline()) {}
  void add(const LossSum& loss);
  StepReading read(const Tensor& grad_norm, double num_items, bool stop_requested, ParallelStrategy& strategy) const;
  const Tensor& loss() const { return loss_; }  // the sum, on the device

 private:
  bool names_vary_;
  Tensor loss_;
  std::map<std::string, Metric> metrics_;
};

// Means over the steps since the last log.
class LogAccumulator {
 public:
  void add(const StepResult& result);
  int64_t steps() const { return steps_; }
  // loss, grad_norm, learning_rate, then the metrics; empties the window.
  Json take();
  Json state() const;
  void restore(const Json& state);

 private:
  int64_t steps_ = 0;
  double loss_ = 0, grad_norm_ = 0, learning_rate_ = 0;
  std::map<std::string, std::pair<double, double>> metrics_;
};

}  // namespace hone::train
