// Estimates the time of a training step from FLOPs and bytes. For ranking configurations, not as a measurement.
#pragma once
#include "hone/train/plan/devices.h"
#include "hone/train/plan/memory.h"

namespace hone::train {

// The fraction of a device's peak reached by typical steps, and the bandwidth of host memory and its link.
inline constexpr double kReachedPeak = 0.4, kHostGbPerS = 12;

struct StepTime {
  double compute = 0, communication = 0, offload = 0;  // seconds; of communication what computing does not hide

  double seconds() const { return compute + communication + offload; }
};

double flops_per_token(const Workload& workload);  // of a training pass

// `tokens_per_second` was measured on one device and replaces the compute estimate; 0: not measured.
StepTime predict_step(const Workload& workload, Sharding sharding, int devices, const PlannedDevice& device,
                      double tokens_per_second);

}  // namespace hone::train
