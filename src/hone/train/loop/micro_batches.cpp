#include "hone/train/loop/micro_batches.h"

namespace hone::train {

void run_passes(const std::vector<data::Batch>& batches, const MicroBatchPass& pass, const MicroBatchHooks& hooks,
                StepMetrics& metrics) {
  for (size_t i = 0; i < batches.size(); ++i) {
    hooks.before_backward(i + 1 == batches.size());
    const auto loss = pass(batches[i], hooks.loss_factor());
    hooks.after_backward();
    metrics.add(loss);
  }
}

void run_pipeline_passes(PipelineSchedule& pipeline, Loss& loss, const std::vector<data::Batch>& batches,
                         const MicroBatchHooks& hooks, StepMetrics& metrics) {
  const auto prepared = pipeline.prepare(loss, batches);
  auto forward = [&](size_t i, int chunk, const PipelineSchedule::Message& received) {
    auto output = pipeline.forward(loss, prepared[i], chunk, received);
    if (!output.loss) return output.message;
    metrics.add(*output.loss);
    return TensorList{output.loss->sum * hooks.loss_factor()};
  };
  pipeline.run_update(prepared,
                      {.forward = forward, .before_backward = hooks.before_backward, .after_backward = hooks.after_backward});
}

}  // namespace hone::train
