// The passes of an update: forward and backward of each micro-batch, one after the other or through the stages of a pipeline.
#pragma once
#include <functional>
#include <vector>

#include "hone/train/distributed/pipeline_schedule.h"
#include "hone/train/loop/step_metrics.h"

namespace hone::train {

struct MicroBatchHooks {
  std::function<double()> loss_factor;             // what the next loss is multiplied by before its backward pass
  std::function<void(bool last)> before_backward;  // in a pipeline, several forward passes may be in flight before it
  std::function<void()> after_backward;
};

// Returns the loss of a batch and adds its gradients, scaled by `factor`, to those of the parameters.
using MicroBatchPass = std::function<LossSum(const data::Batch& batch, double factor)>;

// Adds the losses to `metrics`.
void run_passes(const std::vector<data::Batch>& batches, const MicroBatchPass& pass, const MicroBatchHooks& hooks,
                StepMetrics& metrics);
// The same in a pipeline, of which the last stage computes the losses.
void run_pipeline_passes(PipelineSchedule& pipeline, Loss& loss, const std::vector<data::Batch>& batches,
                         const MicroBatchHooks& hooks, StepMetrics& metrics);

}  // namespace hone::train
