// From options to what is trained and by which optimizer. The only code that reads tuner and optimizer options.
#pragma once
#include "hone/cli/arguments/arg.h"
#include "hone/optim/factory.h"
#include "hone/optim/lr_scheduler.h"
#include "hone/optim/param_groups.h"
#include "hone/tuner/config.h"

namespace hone::cli {

std::optional<at::ScalarType> dtype_option(const Arg<std::string>& option);  // nullopt when none or auto

tuner::TunerConfig tuner_config(const Options& options);
optim::OptimizerConfig optimizer_config(const Options& options);
optim::ParamGroupConfig group_config(const Options& options);
// The number of steps is the trainer's to know; warm-up is left as the options have it.
struct WarmUp {
  double steps = 0, ratio = 0;
};
optim::LrSchedulerConfig schedule_config(const Options& options);
WarmUp warm_up(const Options& options);

}  // namespace hone::cli
