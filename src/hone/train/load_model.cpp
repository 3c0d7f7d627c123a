#include "hone/train/load_model.h"

#include "hone/model/decoder.h"
#include "hone/parallel/pipeline/stage_reading.h"

namespace hone::train {
namespace {

// Adapters may be initialized from weights or merged into them.
bool reads_weights(const tuner::TunerConfig& tuner) {
  if (tuner.kind != tuner::TunerType::adapter) return false;
  const auto& lora = tuner.lora;
  const bool plain =
      tuner.method == "LORA" && !lora.dora && (lora.init == "true" || lora.init == "false" || lora.init == "gaussian");
  return !plain || tuner.create_new_adapter || tuner.adapters.size() > 1;
}

bool reads_own_stage(const TrainingJob& job, const DistributedContext& processes) {
  const auto& changes = job.load.changes;
  return processes.stages && !reads_weights(job.tuner) && job.load.device_map.empty() && changes.block_stride == 0 &&
         changes.init_strategy.empty();
}

}  // namespace

model::LoadOptions load_options(const TrainingJob& job, const DistributedContext& processes) {
  auto options = job.load;
  if (processes.is_tensor_or_expert_parallel() || processes.stages) options.device = at::kCPU;
  return options;
}

std::unique_ptr<model::CausalLM> load_model(const TrainingJob& job, const DistributedContext& processes,
                                            const text::Tokenizer& tokenizer) {
  auto options = load_options(job, processes);
  if (job.resize_embeddings) options.changes.vocabulary = job.resize_embeddings(tokenizer);
  const auto config = model::read_config(job.model_folder, options.changes.config);
  if (job.from_scratch) return model::CausalLM::random(config, job.trainer.seed, options);
  if (!reads_own_stage(job, processes)) return model::CausalLM::load(job.model_folder, options);
  auto request = job.parallel.pipeline;
  request.stages = processes.stages->size();
  options.device_map = parallel::parts_elsewhere(config, {config.layers, request}, processes.stages->rank());
  auto model = model::CausalLM::load(job.model_folder, options);
  parallel::make_placeholders(*model);
  return model;
}

void limit_experts(model::CausalLM& model, const std::optional<ops::ExpertCapacity>& capacity) {
  for (auto& block : model.decoder().blocks)
    if (block.moe) block.moe->capacity = capacity;
}

}  // namespace hone::train
