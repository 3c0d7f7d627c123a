// Formulas of learning-rate schedules: factors of the peak.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/optim/kwargs.h"
#include "hone/optim/lr_scheduler.h"

namespace hone::optim {

using LrFactor = std::function<double(int64_t)>;  // of the finished steps

struct ScheduleSteps {
  double warmup, total;
  double warming(double step) const { return step / std::max(1.0, warmup); }
  double progress(double step) const { return (step - warmup) / std::max(1.0, total - warmup); }
};

struct NamedSchedule {
  std::string name;
  LrFactor (*make)(Kwargs&, const LrSchedulerConfig&, ScheduleSteps);
};

const std::vector<NamedSchedule>& schedule_table();

}  // namespace hone::optim
