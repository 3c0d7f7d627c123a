// From the options of a training command to what the planner asks for. Reads config.json; loads and downloads nothing.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/plan/memory.h"

namespace hone::cli {

struct PlanJob {
  train::Workload workload;
  train::Sharding sharding = train::Sharding::none;  // what the command asks for
  train::Place place;                                // this machine's CPU, when the command is for it
  std::string model;
  std::vector<std::string> assumptions;  // what the command leaves open, in words
};

PlanJob plan_job(const Options& options);

}  // namespace hone::cli
