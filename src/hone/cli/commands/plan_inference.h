// hone plan for inference commands.
#pragma once
#include "hone/cli/commands/plan_device.h"
#include "hone/cli/configs/plan_config.h"

namespace hone::cli {

void print_inference_plan(const InferencePlanJob& job, const TargetDevice& target);
Json inference_plan_json(const InferencePlanJob& job, const TargetDevice& target);

}  // namespace hone::cli
