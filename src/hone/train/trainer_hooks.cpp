#include "hone/train/trainer_hooks.h"

namespace hone::train {

std::function<std::string(int64_t)> row_namer(const RunSetup& setup) {
  auto source = setup.data.train;
  if (!source) return {};
  return [source](int64_t row) {
    auto conversation = source->at(row);
    return conversation ? conversation->origin.str() : fmt::format("row {}", row);
  };
}

std::function<Json(int64_t)> benchmark_of(const TrainingJob& job, const RunSetup& setup, model::CausalLM& model) {
  if (!job.benchmark) return {};
  return [&job, &setup, &model](int64_t step) {
    return job.benchmark({model, setup.tokenizer, setup.encoder, setup.run.root, step});
  };
}

std::function<void(int64_t)> reference_sync(const TrainingJob& job, Reference* reference, model::CausalLM& model) {
  const auto& sync = job.preference.reference.sync;
  if (!reference || !sync) return {};
  return [reference, &model, sync = *sync](int64_t step) {
    if (step % sync.steps == 0) reference->follow(model, sync.alpha);
  };
}

}  // namespace hone::train
