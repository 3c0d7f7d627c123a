// How long a training step takes, from arithmetic and bytes moved. An estimate: it orders ways of running a command, it does not
// measure one.
#pragma once
#include "hone/train/plan/devices.h"
#include "hone/train/plan/memory.h"

namespace hone::train {

// The part of a device's peak that steps of ordinary size reach, and what host memory and its link give.
inline constexpr double kReachedPeak = 0.4, kHostGbPerS = 12;

struct StepTime {
  double compute = 0, communication = 0, offload = 0;  // seconds; of communication what computing does not hide

  double seconds() const { return compute + communication + offload; }
};

double flops_per_token(const Workload& workload);  // of a training pass

// `tokens_per_second` was measured on one device and takes the place of the estimate of the arithmetic; 0: none was.
StepTime predict_step(const Workload& workload, Sharding sharding, int devices, const PlannedDevice& device,
                      double tokens_per_second);

}  // namespace hone::train
