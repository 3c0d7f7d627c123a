// Facts for the summaries of a run: its model, data and devices.
#pragma once
#include <string>

#include "hone/train/loaded_model.h"
#include "hone/train/reports/run_summary.h"
#include "hone/train/run_setup.h"

namespace hone::train {

std::string type_name(at::ScalarType type);  // "bfloat16"
// The start of ms-swift's summary line.
Json about_run(const RunSetup& ready, const LoadedModel& loaded);
RunFacts run_facts(const TrainingJob& job, const RunSetup& ready, const LoadedModel& loaded, const DistributedContext& processes);

}  // namespace hone::train
