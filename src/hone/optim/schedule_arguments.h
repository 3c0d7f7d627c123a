// The arguments of a learning-rate schedule, taken one by one.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/optim/lr_scheduler.h"

namespace hone::optim {

// Takes arguments from lr_scheduler_kwargs; remaining ones are unknown. All throw UserError(usage).
class ScheduleArguments {
 public:
  explicit ScheduleArguments(const LrSchedulerConfig& config);

  std::optional<double> number(const char* key);
  std::string word(const char* key, const char* fallback, const std::vector<std::string>& choices);
  void finish() const;

 private:
  const LrSchedulerConfig& config_;
  Json left_;
};

}  // namespace hone::optim
