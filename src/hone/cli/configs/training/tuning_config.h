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
// The tuner settings, without locating adapters: enough for tuner::validate().
tuner::TunerConfig tuner_choice(const Options& options);
optim::OptimizerConfig optimizer_config(const Options& options);
optim::ParamGroupConfig group_config(const Options& options);
// Without the number of steps, which the trainer computes.
optim::LrSchedulerConfig schedule_config(const Options& options);
optim::WarmupConfig warmup_config(const Options& options);

}  // namespace hone::cli
