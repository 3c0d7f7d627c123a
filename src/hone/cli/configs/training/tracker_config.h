// From --report_to and SwanLab's options to what the trainer reports where, and whom it notifies at the end.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/config.h"

namespace hone::cli {

void read_trackers(const Options& options, train::TrainerConfig& config);

}  // namespace hone::cli
