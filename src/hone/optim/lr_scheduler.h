// Learning-rate schedules as transformers computes them.
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::optim {

struct LrSchedulerConfig {
  std::string name = "linear";
  double learning_rate = 5e-5;
  int64_t total_steps = 0;
  int64_t warmup_steps = 0;
  Json arguments = Json::object();  // lr_scheduler_kwargs
};

// The warm-up before the number of steps is known. `steps` below one is a fraction of them, like a fractional warmup_steps in
// transformers; `ratio` applies if steps is zero.
struct WarmupConfig {
  double steps = 0, ratio = 0;

  int64_t step_count(int64_t total_steps) const;
};
void validate(const WarmupConfig& config);  // throws ConfigError

class LrScheduler {
 public:
  explicit LrScheduler(const LrSchedulerConfig& config);  // throws UserError(usage) for unknown names and arguments

  // The learning rate of the update after `done` finished ones.
  double learning_rate(int64_t done) const;
  // A new value of the monitored metric; only reduce_lr_on_plateau uses it.
  void observe(double metric);
  bool needs_metric() const { return watches_metric_; }
  static const std::vector<std::string>& names();

  Json state() const;  // {} unless a metric is watched
  void load_state(const Json& state);

 private:
  struct Plateau {
    bool minimize = true, relative = true;
    double factor = 0.1, threshold = 1e-4, min_rate = 0, epsilon = 1e-8;
    int64_t patience = 10, cooldown = 0;
    double best = std::numeric_limits<double>::infinity();
    int64_t bad = 0, resting = 0;
    bool improved_by(double metric) const;
  };

  double learning_rate_;
  bool watches_metric_ = false;
  Plateau plateau_;
  std::function<double(int64_t)> factor_;
};

}  // namespace hone::optim
