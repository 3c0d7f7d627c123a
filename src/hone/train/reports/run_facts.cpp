#include "hone/train/reports/run_facts.h"

#include "hone/device/device.h"
#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::train {
namespace {

// "bfloat16", or "bfloat16, those of the blocks' linear layers in nf4".
std::string weights_of(const TrainingJob& job, const model::CausalLM& model) {
  const auto& compression = job.load.changes.compression;
  if (!compression) return type_name(model.dtype());
  return fmt::format("{}, those of the blocks' linear layers in {}", type_name(model.dtype()), ops::code_name(compression->code));
}

}  // namespace

std::string type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

Json about_run(const RunSetup& ready, const LoadedModel& loaded) {
  auto millions = [](int64_t count) { return static_cast<double>(count) / 1e6; };
  const auto& tuned = loaded.tuned;
  Json about{{"model_parameter_info",
              fmt::format("{}: {:.4f}M Params ({:.4f}M Trainable [{:.4f}%]), 0.0000M Buffers.",
                          loaded.model->config().architecture, millions(tuned.total_count), millions(tuned.trainable_count),
                          100 * millions(tuned.trainable_count) / std::max(millions(tuned.total_count), 1e-9))}};
  if (ready.data.train) about["train_dataset"] = fmt::format("size={}", ready.data.train->size());
  if (ready.data.validation) about["val_dataset"] = fmt::format("size={}", ready.data.validation->size());
  return about;
}

RunFacts run_facts(const TrainingJob& job, const RunSetup& ready, const LoadedModel& loaded,
                   const DistributedContext& processes) {
  RunFacts facts{.model = job.model_name.empty() ? job.model_folder.string() : job.model_name,
                 .tuner = tuner_name(job.tuner),
                 .device = device::describe(job.load.device),
                 .dtype = weights_of(job, *loaded.model),
                 .template_name = ready.encoder->template_name(),
                 .max_length = ready.encoder->config().max_length,
                 .processes = processes.world.size,
                 .copies = processes.data_size()};
  if (!ready.data.train) return facts;
  const auto& report = *ready.report;
  facts.examples = ready.data.train->size() - report.bad();
  if (report.good() < facts.examples) return facts;  // large inputs are read while the run continues
  facts.tokens = report.tokens();
  facts.trained_tokens = report.trained_tokens();
  facts.longest_row = report.longest();
  return facts;
}

}  // namespace hone::train
