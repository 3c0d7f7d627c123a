// Metrics of a step: summed on the device over its micro-batches, read by the host once.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

// What the host knows about one step.
struct StepResult {
  double loss = 0, grad_norm = 0, learning_rate = 0;
  std::map<std::string, std::pair<double, double>> metrics;  // name -> sum, count
  bool finite = true;
  bool stop_requested = false;  // on any process: all of them save the same step
};

// Adds up a step's losses and metrics. read() is the step's only wait for the device: one small copy just before the optimizer
// step, which must know whether the numbers are finite. Several processes share one small sum.
class StepMetrics {
 public:
  // `names_vary`: processes may have metrics of other names in the same step.
  explicit StepMetrics(bool names_vary = false) : names_vary_(names_vary) {}
  void add(const LossSum& loss);
  StepResult read(const Tensor& grad_norm, double count, bool stop_requested, ParallelStrategy& group) const;

 private:
  bool names_vary_;
  Tensor loss_;
  std::map<std::string, Metric> metrics_;
};

// Means over the steps since the last log.
class LogAccumulator {
 public:
  void add(const StepResult& reading);
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
