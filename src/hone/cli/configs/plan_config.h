// From the options of a command to the planner's input. Reads config.json; loads and downloads nothing.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/plan/inference.h"
#include "hone/train/plan/layouts.h"
#include "hone/train/plan/memory.h"

namespace hone::cli {

struct PlanJob {
  train::Workload workload;
  train::Sharding sharding = train::Sharding::none;  // as the command requests
  train::ModelLayout layout;                         // the same, of model parallelism; dp is what devices are left
  train::PlanTarget place;                           // this machine's CPU, when the command is for it
  std::string model;
  std::vector<std::string> assumptions;  // values that the command leaves open, in words
  std::string pixel_setting;             // what limits an image, up to its number: "MAX_PIXELS="
  int64_t token_pixels = 0;              // of an image that the model reads as it is; 0: it reads none, or squares of one size
};

PlanJob plan_job(const Options& options);

// The same of a command that generates: infer, deploy, app.
struct InferencePlanJob {
  train::InferenceWorkload workload;
  int devices = 1;  // that share every layer
  int64_t parameters = 0;
  std::string model;
  std::vector<std::string> assumptions;
};

InferencePlanJob inference_plan_job(const Options& options);

}  // namespace hone::cli
