#include "hone/train/loop/profiler.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/device/tensor.h"

namespace hone::train {
namespace {

using torch::profiler::impl::ActivityType;

std::set<ActivityType> activities() {
  std::set<ActivityType> kinds{ActivityType::CPU};
  if (at::hasCUDA()) kinds.insert(ActivityType::CUDA);
  return kinds;
}

torch::profiler::impl::ProfilerConfig libtorch_config(const ProfilerConfig& config) {
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO, config.shapes, config.memory,
                                               config.stack);
}

}  // namespace

StepProfiler::StepProfiler(ProfilerConfig config, int rank) : config_(std::move(config)) {
  if (config_.active < 1 || std::min({config_.wait, config_.warmup, config_.repeat}) < 0)
    throw UserError(ExitCode::usage,
                    fmt::format("the profiler waits {} steps, warms up for {}, records {} and repeats that {} times",
                                config_.wait, config_.warmup, config_.active, config_.repeat),
                    "profiler_active_steps is 1 or more, the others are 0 or more");
  config_.folder /= fmt::format("rank_{}", rank);
  fs::create_directories(config_.folder);
}

StepProfiler::~StepProfiler() {
  if (recording_) torch::autograd::profiler::disableProfiler();
}

bool StepProfiler::done() const {
  return config_.repeat > 0 && steps_ >= config_.repeat * (config_.wait + config_.warmup + config_.active);
}

void StepProfiler::before_step() {
  if (done()) return;
  bool begins_recording = step_in_cycle() == config_.wait + config_.warmup;
  if (step_in_cycle() == config_.wait || (begins_recording && config_.warmup == 0))
    torch::autograd::profiler::prepareProfiler(libtorch_config(config_), activities());
  if (!begins_recording) return;
  torch::autograd::profiler::enableProfiler(libtorch_config(config_), activities());
  recording_ = true;
}

void StepProfiler::after_step(int64_t step) {
  if (done()) return;
  bool ends_recording = recording_ && step_in_cycle() == config_.wait + config_.warmup + config_.active - 1;
  ++steps_;
  if (!ends_recording) return;
  recording_ = false;
  auto path = config_.folder / fmt::format("step-{}.pt.trace.json", step);
  torch::autograd::profiler::disableProfiler()->save(path.string());
  log::info("profile written to {}", path.string());
}

}  // namespace hone::train
