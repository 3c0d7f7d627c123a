#include "hone/parallel/pipeline/pipeline_model.h"

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/device/placeholder.h"
#include "hone/device/tensor_identity.h"
#include "hone/model/decoder.h"
#include "hone/model/encoders/media_encoder.h"

namespace hone::parallel {
namespace {

constexpr int kStageTag = 0;

// Trained parameters are copied out of the mapped file, which others may replace.
Tensor own_memory(const Tensor& value, at::Device device) {
  if (device::is_placeholder(value)) return device::placeholder(value.sizes(), value.options().device(device));  // quantized
  return value.detach().to(device, value.scalar_type(), /*non_blocking=*/false, /*copy=*/value.requires_grad());
}

// The frozen tensors of a tuner, some of which all layers share.
void move_frozen(model::LinearTuner& tuner, at::Device device) {
  for (const auto& list : {tuner.fixed(), tuner.shared()})
    for (const auto& frozen : list) *frozen.value = frozen.value->to(device);
}

}  // namespace

PipelineModel::PipelineModel(model::CausalLM& model, StageLayout layout, const StageGroups& groups, at::Device device,
                             int64_t sequence_shards)
    : model_(model), layout_(std::move(layout)), groups_(groups), sequence_shards_(sequence_shards) {
  at::NoGradGuard no_grad;
  int64_t block = 0;
  for (auto& unit : model.units()) {
    const bool is_input = unit.kind == model::UnitKind::embedding || unit.kind == model::UnitKind::encoder;
    const int stage = is_input ? 0 : unit.kind == model::UnitKind::block ? layout_.stage_of(block++) : layout_.stages() - 1;
    for (auto& parameter : unit.parameters())
      if (stage_of_.insert({device::identity_of(*parameter.value), stage}).second) parameters_.push_back(*parameter.value);
  }
  for (auto& value : parameters_)
    value.set_data(holds(value) ? own_memory(value, device) : device::placeholder(value.sizes(), value.options().device(device)));
  for (auto* layer : model.tree().linears()) {
    HONE_CHECK(!layer->quantized, "{} is quantized for inference", layer->name);
    for (const auto& tuner : layer->tuners) move_frozen(*tuner, device);  // of all stages, which are gathered for generation
    if (!layer->quantized_base) continue;
    layer->quantized_base = holds(layer->weight) ? layer->quantized_base->to(device) : nullptr;
    quantized_[device::identity_of(layer->weight)] = layer;
  }
  model.decoder().pipeline = this;
}

PipelineModel::~PipelineModel() { model_.decoder().pipeline = nullptr; }

int PipelineModel::stage_of(const Tensor& parameter) const {
  auto found = stage_of_.find(device::identity_of(parameter));
  HONE_CHECK(found != stage_of_.end(), "the tensor is no parameter of the model");
  return found->second;
}

bool PipelineModel::is_shared(const Tensor& parameter) const {
  return is_last() && model_.config().tie_word_embeddings && parameter.is_same(model_.embedding().weight);
}

PipelineModel::Message PipelineModel::StageOutput::message() const {
  Message message{x_th};
  TensorList logits;
  for (const auto& logits_te : router_logits) logits.push_back(logits_te.to(at::kFloat));
  if (!logits.empty()) message.push_back(at::stack(logits));
  if (!deepstack.empty()) message.push_back(at::stack(deepstack).to(x_th.scalar_type()));
  return message;
}

int64_t PipelineModel::routers_before(int stage) const {
  int64_t mixtures = 0;
  for (int64_t block = 0; block < layout_.begin(stage); ++block) mixtures += model_.config().has_experts(block) ? 1 : 0;
  return mixtures;
}

int64_t PipelineModel::deepstack_from(int64_t block, const model::ForwardInput& input) const {
  const auto& vision = model_.config().vision;
  if (!vision || input.images.empty()) return 0;
  return std::max<int64_t>(static_cast<int64_t>(vision->deepstack_blocks.size()) - block, 0);
}

model::ForwardInput PipelineModel::with_received_features(int stage, const model::ForwardInput& input,
                                                          const Message& received) const {
  if (!input.has_media()) return input;
  auto features = model::media_rows_on_rank(model_.decoder(), input);
  if (deepstack_from(layout_.begin(stage), input) > 0) {
    features.deepstack.resize(static_cast<size_t>(layout_.begin(stage)));
    for (auto& addition : received.back().unbind(0)) features.deepstack.push_back(std::move(addition));
  }
  return model::with_features(model_.decoder(), input, std::move(features));
}

PipelineModel::StageOutput PipelineModel::run_stage(int stage, const model::ForwardInput& input, const Message& received,
                                                    bool router_logits) {
  fault("pipeline.forward");
  StageOutput output;
  if (router_logits && routers_before(stage) > 0) output.router_logits = received[1].unbind(0);
  const auto encoded = stage == 0 ? model_.encode(input) : with_received_features(stage, input, received);
  output.x_th = model_.run_blocks(stage == 0 ? model_.embed(encoded) : received.front(), layout_.begin(stage), layout_.end(stage),
                                  encoded, nullptr, router_logits ? &output.router_logits : nullptr);
  const auto& deepstack = encoded.encoder.deepstack;
  for (auto block = static_cast<size_t>(layout_.end(stage)); block < deepstack.size(); ++block)
    output.deepstack.push_back(deepstack[block]);
  return output;
}

PipelineModel::Message PipelineModel::receive(int stage, const model::ForwardInput& input, bool router_logits) {
  const auto& config = model_.config();
  const auto options = at::TensorOptions(model_.dtype()).device(model_.device());
  const int64_t tokens = input.size();
  Message message{at::empty({(tokens + sequence_shards_ - 1) / sequence_shards_, config.hidden_size}, options)};
  if (const int64_t mixtures = router_logits ? routers_before(stage) : 0; mixtures > 0)
    message.push_back(at::empty({mixtures, tokens, config.experts.count}, options.dtype(at::kFloat)));
  if (const int64_t features = deepstack_from(layout_.begin(stage), input); features > 0)
    message.push_back(
        at::empty({features, model::media_rows_on_rank(model_.decoder(), input).rows_n.size(0), config.hidden_size}, options));
  auto& group = is_first() ? *groups_.around : *groups_.stages;
  for (auto& each : message) group.receive(each, layout_.rank_of(stage - 1), kStageTag)->wait();
  return message;
}

PipelineModel::Sending PipelineModel::send_all(ProcessGroup& group, const TensorList& values, int to) const {
  Sending sending;
  for (const auto& each : values) sending.push_back(group.send(each.detach().contiguous(), to, kStageTag));
  return sending;
}

PipelineModel::Sending PipelineModel::send(int stage, const Message& message) {
  return send_all(is_last() ? *groups_.around : *groups_.stages, message, layout_.rank_of(stage + 1));
}

TensorList PipelineModel::receive_gradients(int stage, const TensorList& outputs) {
  auto& group = is_last() ? *groups_.gradients_around : *groups_.gradients;
  TensorList gradients;
  for (const auto& output : outputs) {
    gradients.push_back(at::empty(output.sizes(), output.options().requires_grad(false)));
    group.receive(gradients.back(), layout_.rank_of(stage + 1), kStageTag)->wait();
  }
  return gradients;
}

PipelineModel::Sending PipelineModel::send_gradients(int stage, const TensorList& gradients) {
  return send_all(is_first() ? *groups_.gradients_around : *groups_.gradients, gradients, layout_.rank_of(stage - 1));
}

Tensor PipelineModel::run(model::CausalLM&, const model::ForwardInput& input, TensorList* router_logits) {
  HONE_CHECK(!at::GradMode::is_enabled(), "this pass saves nothing for backward; gradients must be off");
  Sending sending;
  Tensor last_th;
  for (int chunk = 0; chunk < layout_.chunks(); ++chunk) {
    const int here = stage(chunk);
    const auto received = here == 0 ? Message() : receive(here, input, router_logits != nullptr);
    auto output = run_stage(here, input, received, router_logits != nullptr);
    if (is_last_stage(here)) {
      if (router_logits) *router_logits = std::move(output.router_logits);
      last_th = output.x_th;
    } else {
      for (auto& work : send(here, output.message())) sending.push_back(std::move(work));
    }
  }
  wait_for(sending);
  return last_th;
}

void PipelineModel::broadcast_from_last(Tensor& values) { groups_.stages->broadcast(values, layout_.ranks() - 1); }

ProcessGroup* PipelineModel::summed_over(const Tensor& parameter) const {
  const bool tied = model_.config().tie_word_embeddings && parameter.is_same(model_.embedding().weight);
  return tied ? groups_.ends : nullptr;
}

void PipelineModel::sum_shared(const Tensor& parameter, Tensor updated) const {
  if (!summed_over(parameter) || fault("pipeline.tied")) return;
  at::NoGradGuard no_grad;
  auto& gradient = updated.mutable_grad();
  auto total = gradient.defined() ? gradient.contiguous() : at::zeros_like(updated.detach());
  groups_.ends->all_reduce(total)->wait();
  gradient = total;
}

Tensor PipelineModel::brought_to_first(const Tensor& parameter, const Tensor& values, at::IntArrayRef shape) const {
  constexpr int kTag = 1;  // in addition to the activations sent between stages
  const int owner = layout_.rank_of(stage_of(parameter));
  if (owner == 0) return is_first() ? values.to(at::kCPU) : Tensor();
  if (rank() == owner) groups_.stages->send(values.contiguous(), 0, kTag)->wait();
  if (!is_first()) return {};
  auto received = at::empty(shape, parameter.options().requires_grad(false));
  groups_.stages->receive(received, owner, kTag)->wait();
  return received.to(at::kCPU);
}

// The others' copies of a quantized weight are not quantized.
Tensor PipelineModel::values_of(const Tensor& parameter) const {
  const auto found = quantized_.find(device::identity_of(parameter));
  const auto base = found == quantized_.end() ? nullptr : found->second->quantized_base;
  return base ? base->dequantize(parameter.scalar_type()) : parameter.detach().contiguous();
}

void PipelineModel::keep_gathered(bool hold) {
  if (hold == std::exchange(is_gathered_, hold)) return;
  at::NoGradGuard no_grad;
  model_.decoder().pipeline = hold ? nullptr : this;
  for (auto& [parameter, placeholder] : gathered_) parameter.set_data(placeholder);
  gathered_.clear();
  if (!hold) return;
  for (auto& parameter : parameters_) {
    auto values =
        holds(parameter) ? values_of(parameter) : at::empty(parameter.sizes(), parameter.options().requires_grad(false));
    groups_.stages->broadcast(values, layout_.rank_of(stage_of(parameter)));
    if (holds(parameter)) continue;
    gathered_.emplace_back(parameter, parameter.detach());
    parameter.set_data(values);
  }
}

std::unique_ptr<PipelineModel> apply_pipeline_parallel(model::CausalLM& model, StageLayout layout, const StageGroups& groups,
                                                       at::Device device, int64_t sequence_shards) {
  return std::make_unique<PipelineModel>(model, std::move(layout), groups, device, sequence_shards);
}

void wait_for(PipelineModel::Sending& sending) {
  for (auto& work : sending) work->wait();
  sending.clear();
}

}  // namespace hone::parallel
