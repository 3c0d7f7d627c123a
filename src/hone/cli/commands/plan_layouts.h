// The part of a plan about model parallel layouts.
#pragma once
#include "hone/cli/commands/plan_device.h"
#include "hone/cli/configs/plan_config.h"
#include "hone/train/plan/layouts.h"

namespace hone::cli {

class LayoutPlanner {
 public:
  LayoutPlanner(const PlanJob& job, const TargetDevice& target, const train::Cluster& cluster, double tokens_per_second)
      : job_(job), target_(target), cluster_(cluster), rate_(tokens_per_second) {}

  // Whether the command requests one of them.
  bool is_asked() const { return !job_.layout.is_data_parallel(); }
  bool fits() const;                // in any layout
  train::LayoutPlan asked() const;  // throws UserError(usage) when the model cannot be laid out so
  Json json() const;
  void print_asked() const;
  void print_fastest() const;  // on several devices of a kind

 private:
  int64_t micro_batches() const;  // of a step over all copies
  train::ModelLayout asked_layout() const;

  const PlanJob& job_;
  const TargetDevice& target_;
  train::Cluster cluster_;
  double rate_;
};

}  // namespace hone::cli
