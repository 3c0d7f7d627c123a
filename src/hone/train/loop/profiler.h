// Profiles a few steps and writes a trace for TensorBoard and chrome://tracing.
#pragma once
#include <cstdint>

#include "hone/base/file.h"

namespace hone::train {

struct ProfilerConfig {
  int64_t wait = 1, warmup = 1, active = 1;  // steps that are left out, that only warm the profiler up, that are recorded
  int64_t repeat = 1;                        // number of cycles; 0: until the run ends
  bool shapes = true, memory = true, stack = true;
  fs::path folder;  // empty: profiler/ in the run folder; each process writes into rank_N of it
};

// Called for every step. A cycle interrupted by the run's end is not written.
class StepProfiler {
 public:
  StepProfiler(ProfilerConfig config, int rank);
  ~StepProfiler();
  StepProfiler(const StepProfiler&) = delete;

  void before_step();
  void after_step(int64_t step);  // the run's number of it, which names the trace

 private:
  int64_t step_in_cycle() const { return steps_ % (config_.wait + config_.warmup + config_.active); }
  bool done() const;

  ProfilerConfig config_;
  int64_t steps_ = 0;
  bool recording_ = false;
};

}  // namespace hone::train
