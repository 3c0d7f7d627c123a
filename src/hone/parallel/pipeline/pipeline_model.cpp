#include "hone/parallel/pipeline/pipeline_model.h"

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/device/placeholder.h"
#include "hone/model/decoder.h"

namespace hone::parallel {
namespace {

const void* address_of_impl(const Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

void check_stages_possible(model::CausalLM& model) {
  auto refuse = [](const std::string& what, const char* fix) {
    throw UserError(ExitCode::usage, what + ", which pipeline parallel training does not support", fix);
  };
  const auto& config = model.config();
  if (config.vision || config.audio)
    refuse(fmt::format("{} reads images or sound", config.architecture), "shard it with `deepspeed` zero3");
  if (config.num_labels || model.value_head()) refuse("the model scores whole texts", "shard it with `deepspeed` zero3");
  for (const auto* layer : model.tree().linears()) {
    if (layer->quantized_base || layer->quantized || layer->float8)
      refuse(layer->name + " is quantized", "leave out the pipeline, or the bits");
    if (!layer->tuners.empty()) refuse(layer->name + " has an adapter that is not LoRA", "use `tuner_type` lora or full");
  }
}

// What trains leaves the mapped file, which others may replace.
Tensor own_memory(const Tensor& value, at::Device device) {
  return value.detach().to(device, value.scalar_type(), /*non_blocking=*/false, /*copy=*/value.requires_grad());
}

}  // namespace

PipelineModel::PipelineModel(model::CausalLM& model, StageLayout layout, ProcessGroup& stages, ProcessGroup* ends,
                             at::Device device)
    : model_(model), layout_(std::move(layout)), stages_(stages), ends_(ends) {
  check_stages_possible(model);
  at::NoGradGuard no_grad;
  int64_t block = 0;
  for (auto& unit : model.units()) {
    const int stage = unit.kind == model::UnitKind::embedding ? 0
                      : unit.kind == model::UnitKind::block   ? layout_.stage_of(block++)
                                                              : layout_.stages() - 1;
    for (auto& parameter : unit.parameters()) stage_of_[address_of_impl(*parameter.value)] = stage;
    for (auto& parameter : unit.parameters()) {
      auto& value = *parameter.value;
      value.set_data(holds(value) ? own_memory(value, device)
                                  : device::placeholder(value.sizes(), value.options().device(device)));
    }
  }
}

int PipelineModel::stage_of(const Tensor& parameter) const {
  auto found = stage_of_.find(address_of_impl(parameter));
  HONE_CHECK(found != stage_of_.end(), "a tensor that is none of the model's");
  return found->second;
}

bool PipelineModel::is_shared(const Tensor& parameter) const {
  return is_last() && model_.config().tie_word_embeddings && parameter.is_same(model_.embedding().weight);
}

ProcessGroup* PipelineModel::summed_over(const Tensor& parameter) const {
  const bool tied = model_.config().tie_word_embeddings && parameter.is_same(model_.embedding().weight);
  return tied ? ends_ : nullptr;
}

void PipelineModel::sum_shared(const Tensor& parameter, Tensor updated) const {
  if (!summed_over(parameter) || fault("pipeline.tied")) return;
  at::NoGradGuard no_grad;
  auto& gradient = updated.mutable_grad();
  auto total = gradient.defined() ? gradient.contiguous() : at::zeros_like(updated.detach());
  ends_->all_reduce(total)->wait();
  gradient = total;
}

Tensor PipelineModel::brought_to_first(const Tensor& parameter, const Tensor& values, at::IntArrayRef shape) const {
  constexpr int kTag = 1;  // beside what passes between stages
  const int owner = stage_of(parameter);
  if (owner == 0) return is_first() ? values.to(at::kCPU) : Tensor();
  if (stage() == owner) stages_.send(values.contiguous(), 0, kTag)->wait();
  if (!is_first()) return {};
  auto received = at::empty(shape, parameter.options().requires_grad(false));
  stages_.receive(received, owner, kTag)->wait();
  return received.to(at::kCPU);
}

std::unique_ptr<PipelineModel> apply_pipeline_parallel(model::CausalLM& model, StageLayout layout, ProcessGroup& stages,
                                                       ProcessGroup* ends, at::Device device) {
  return std::make_unique<PipelineModel>(model, std::move(layout), stages, ends, device);
}

}  // namespace hone::parallel
