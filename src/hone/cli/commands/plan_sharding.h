// The part of a plan about data parallelism and sharding: memory and time on several numbers of devices.
#pragma once
#include <optional>
#include <vector>

#include "hone/cli/commands/plan_device.h"
#include "hone/cli/configs/plan_config.h"
#include "hone/train/plan/step_time.h"

namespace hone::cli {

// The numbers of devices that a plan considers in addition to the requested one.
inline constexpr int kDeviceCounts[] = {1, 2, 4, 8};

// One configuration of the command on the target.
struct ShardingLayout {
  int devices;
  train::Sharding sharding;
  train::MemoryPlan memory;
  train::StepTime time;
  bool fits;

  double host() const;  // bytes of host memory per node
};

class ShardingPlanner {
 public:
  ShardingPlanner(const PlanJob& job, const TargetDevice& target, double tokens_per_second)
      : job_(job), target_(target), rate_(tokens_per_second) {}

  ShardingLayout layout(train::Sharding sharding, int devices) const;
  // All valid configurations for the given number of devices.
  std::vector<ShardingLayout> layouts(int devices) const;
  // For the requested number of devices all configurations, for other numbers the fastest that fits.
  std::vector<ShardingLayout> alternatives(int devices) const;
  // The smallest configuration that fits: the fewest devices, then the least sharding.
  std::optional<ShardingLayout> least_on(const train::PlannedDevice& device, int devices = 1) const;

  double tokens_of_step(int devices) const;
  Json json(int devices) const;
  const PlanJob& job() const { return job_; }
  const TargetDevice& target() const { return target_; }

 private:
  ShardingLayout layout_on(const train::PlannedDevice& device, bool cpu, train::Sharding sharding, int devices) const;

  const PlanJob& job_;
  const TargetDevice& target_;
  double rate_;
};

}  // namespace hone::cli
