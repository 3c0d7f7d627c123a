// From --report_to and SwanLab's options to trackers and the notification at the end.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/config.h"

namespace hone::cli {

void read_trackers(const Options& options, train::TrainerConfig& config);

}  // namespace hone::cli
