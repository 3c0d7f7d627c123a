#include "hone/parallel/sharding/sharded_model.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/device/placeholder.h"
#include "hone/device/tensor_identity.h"
#include "hone/model/decoder.h"
#include "hone/ops/quantization/quantized_tensor.h"
#include "hone/parallel/sharding/wrap_policy.h"

namespace hone::parallel {
namespace {

void append(std::vector<model::NamedParameter>& list, const std::vector<model::NamedParameter>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

using QuantizedWeights = std::unordered_map<const Tensor*, const ops::QuantizedTensor*>;

QuantizedWeights quantized_weights(model::CausalLM& model) {
  QuantizedWeights found;
  for (const auto* linear : model.tree().linears())
    if (linear->quantized_base) found[&linear->weight] = linear->quantized_base.get();
  return found;
}

// The tensors of a parameter that take memory: codes and scales if quantized, of which the weight itself is only a shape.
TensorList memory_of(const Tensor& parameter, const QuantizedWeights& quantized) {
  auto found = quantized.find(&parameter);
  if (found == quantized.end()) return {parameter};
  auto parts = found->second->parts();
  TensorList tensors{parts.codes, parts.scales};
  if (parts.outer.defined()) tensors.push_back(parts.outer);
  return tensors;
}

}  // namespace

ShardedModel::ShardedModel(model::CausalLM& model, const ShardingConfig& config, ShardingGroups groups, bool pure_16_bit)
    : model_(model),
      config_(config),
      groups_(std::move(groups)),
      blocks_(static_cast<size_t>(model.config().layers)),
      tied_(model.config().tie_word_embeddings) {
  FlatParameterConfig common;
  common.keep_unsharded = config.stage < 3;
  common.device = model.device();
  common.offload_parameters = config.offload_parameters;
  common.offload_optimizer = config.offload_optimizer || config.offload_parameters;
  if (config.reduce_type) common.reduce_type = *config.reduce_type;
  common.gradient_type = pure_16_bit ? at::ScalarType::Undefined : at::kFloat;
  std::vector<model::NamedParameter> first, last;  // of the final norm and the head, whose weight may be the embedding's
  const auto units = model.units();
  for (const auto& unit : units)
    for (const auto& parameter : unit.parameters())
      if (parameter.value->requires_grad() && !device::is_placeholder(*parameter.value)) trained_ += parameter.value->numel();
  for (size_t i = blocks_ + 1; i < units.size(); ++i) {
    const bool encodes = units[i].kind == model::UnitKind::encoder;  // used with the embedding
    has_encoder_ |= encodes;
    append(encodes ? first : last, units[i].parameters());
  }
  if (tied_) append(first, last);
  append(first, units.front().parameters());
  add_part(first, common);
  for (size_t i = 1; i <= blocks_; ++i) add_part(units[i].parameters(), common);
  if (!tied_) add_part(last, common);
  complete_.resize(parts_.size());
  comes_in_backward_.resize(parts_.size());
  model.decoder().weight_hooks = this;
}

ShardedModel::~ShardedModel() { model_.decoder().weight_hooks = nullptr; }

void ShardedModel::add_part(const std::vector<model::NamedParameter>& parameters, const FlatParameterConfig& common) {
  parts_.emplace_back();
  if (config_.stage < 3 || config_.unit_size == 0) return add_unit(parameters, common, /*stays=*/false);
  std::vector<std::string> modules;
  for (const auto& unit : model_.units()) modules.push_back(unit.module.path);
  auto units = size_based_wrap(parameters, modules, config_.unit_size);
  for (const auto& unit : units.units) add_unit(unit, common, /*stays=*/false);
  add_unit(units.root, common, /*stays=*/true);
}

void ShardedModel::add_unit(const std::vector<model::NamedParameter>& unit, const FlatParameterConfig& common, bool stays) {
  const auto quantized = quantized_weights(model_);
  TensorList trained, frozen;
  for (const auto& parameter : unit) {
    if (device::is_placeholder(*parameter.value) && !quantized.contains(parameter.value)) continue;
    auto& list = parameter.value->requires_grad() ? trained : frozen;
    for (const auto& tensor : memory_of(*parameter.value, quantized)) list.push_back(tensor);
  }
  add_flats(trained, /*trained=*/true, common, stays);
  if (config_.stage == 3) add_flats(frozen, /*trained=*/false, common, stays);
}

// As in Megatron: the first elements, until the given fraction of all is in host memory.
bool ShardedModel::offloads_next(const TensorList& members) {
  if (static_cast<double>(offloaded_) >= config_.offload_fraction * static_cast<double>(trained_)) return false;
  for (const auto& member : members) offloaded_ += member.numel();
  return true;
}

// One buffer per dtype and sharding group: trained parameters are separate from frozen ones, which need no gradients and no
// reduction.
void ShardedModel::add_flats(const TensorList& tensors, bool trained, const FlatParameterConfig& common, bool stays) {
  struct SameKind {
    at::ScalarType type;
    ShardingGroups::OfParameter groups;
    TensorList members = {};
  };
  std::vector<SameKind> lists;  // in parameter order, which is the same on all ranks that share them
  for (const auto& tensor : tensors) {
    const auto type = tensor.scalar_type();
    const auto groups = groups_.of_parameter ? groups_.of_parameter(tensor) : ShardingGroups::OfParameter();
    auto found = std::ranges::find_if(lists, [&](const SameKind& list) { return list.type == type && list.groups == groups; });
    (found == lists.end() ? lists.emplace_back(SameKind{type, groups}) : *found).members.push_back(tensor);
  }
  auto& flats = parts_.back();
  for (auto& [type, groups, members] : lists) {
    auto config = common;
    config.type = type;
    config.trained = trained;
    config.offload_optimizer = common.offload_optimizer && trained && offloads_next(members);
    if (config.gradient_type == at::ScalarType::Undefined) config.gradient_type = type;
    auto& shards = groups.shards ? *groups.shards : groups_.shards;
    flats.push_back(std::make_unique<FlatParameter>(std::move(members), shards, groups_.replicas, config));
    auto& flat = *flats.back();
    if (stays) staying_.insert(&flat);
    for (size_t i = 0; i < flat.members().size(); ++i) {
      locations_[device::identity_of(flat.members()[i])] = {parts_.size() - 1, flats.size() - 1, i};
      parameter_shards_[device::identity_of(flat.members()[i])];
    }
    for (auto& shard : flat.shards()) parameter_shards_[device::identity_of(flat.members()[shard.member])].push_back(&shard);
  }
}

void ShardedModel::before_forward(size_t unit) {
  for (auto& flat : parts_[part_of(unit)]) flat->finish_gather();
  if (!config_.prefetch || config_.stage < 3 || unit > blocks_) return;
  for (auto& flat : parts_[part_of(unit + 1)]) flat->start_gather();
}

void ShardedModel::after_forward(size_t unit) {
  // Needed again as the head, or by the encoder's backward pass, where ranks without images would miss a collective gather.
  const bool returns = unit == 0 && (tied_ || has_encoder_);
  const bool needed_at_once =
      unit == blocks_ && at::GradMode::is_enabled();  // the backward pass starts where the forward pass ends
  if (config_.reshard_after_forward && !needed_at_once && !returns) reshard(part_of(unit));
}

void ShardedModel::before_backward(size_t unit) {
  const size_t part = part_of(unit);
  comes_in_backward_[part] = true;
  // A separate embedding needs only its adapters: its frozen rows were looked up already.
  auto is_needed = [&](size_t p, const FlatParameter& flat) { return p > 0 || tied_ || has_encoder_ || flat.trained(); };
  for (auto& flat : parts_[part])
    if (is_needed(part, *flat)) flat->finish_gather();
  if (!config_.prefetch || part == 0 || !comes_in_backward_[part - 1]) return;
  for (auto& flat : parts_[part - 1])
    if (is_needed(part - 1, *flat)) flat->start_gather();
}

void ShardedModel::after_backward(size_t unit) {
  if (unit > blocks_ && tied_) return;  // the embedding's gradient is still to come
  reshard(part_of(unit));
  complete_[part_of(unit)] = true;
  if (!reduces_now()) return;
  while (reduced_ < parts_.size() && complete_[parts_.size() - 1 - reduced_]) reduce(parts_.size() - ++reduced_);
}

void ShardedModel::release(size_t part) {
  if (kept_gathered_) return;
  for (auto& flat : parts_[part]) flat->release();
}

void ShardedModel::reshard(size_t part) {
  if (kept_gathered_) return;
  for (auto& flat : parts_[part])
    if (!staying_.contains(flat.get())) flat->release();
}

// At most one unit's gradients are in flight, so that memory is bounded by two units.
void ShardedModel::reduce(size_t part) {
  for (auto* flat : std::exchange(pending_reductions_, {})) flat->finish_reduce();
  for (auto& flat : parts_[part]) {
    if (!flat->requires_grad_now()) continue;
    flat->start_reduce();
    pending_reductions_.push_back(flat.get());
  }
}

void ShardedModel::begin_backward(bool last_of_update) {
  last_of_update_ = last_of_update;
  reduced_ = 0;
  for (size_t part = 0; part < parts_.size(); ++part) complete_[part] = parts_[part].empty();
}

void ShardedModel::end_backward() {
  for (size_t part = 0; part < parts_.size(); ++part) release(part);
  while (reduces_now() && reduced_ < parts_.size()) reduce(parts_.size() - ++reduced_);
  for (auto* flat : std::exchange(pending_reductions_, {})) flat->finish_reduce();
}

template <class Visit>
void ShardedModel::each_trained(Visit visit) {
  for (auto& part : parts_)
    for (auto& flat : part)
      if (flat->trained()) visit(*flat);
}

void ShardedModel::sync_after_step() {
  each_trained([](FlatParameter& flat) { flat.sync_after_step(); });
}

void ShardedModel::wait_for_sync() {
  if (config_.stage < 3) each_trained([](FlatParameter& flat) { flat.finish_gather(); });
}

bool ShardedModel::holds(const Tensor& parameter) const { return parameter_shards_.contains(device::identity_of(parameter)); }

const std::vector<ParameterShard*>& ShardedModel::shards_of(const Tensor& parameter) const {
  auto found = parameter_shards_.find(device::identity_of(parameter));
  HONE_CHECK(found != parameter_shards_.end(), "a parameter that is not sharded");
  return found->second;
}

std::pair<FlatParameter*, size_t> ShardedModel::flat_of(const Tensor& parameter) const {
  const auto& location = locations_.at(device::identity_of(parameter));
  return {parts_[location.part][location.flat].get(), location.member};
}

void ShardedModel::fill(const Tensor& parameter, const Tensor& values) {
  const auto [flat, member] = flat_of(parameter);
  flat->fill(member, values);
}

void ShardedModel::reload_shards() {
  each_trained([](FlatParameter& flat) { flat.reload_shard(); });
}

void ShardedModel::keep_gathered(bool hold) {
  kept_gathered_ = hold;
  for (auto& part : parts_)
    for (auto& flat : part) hold ? flat->finish_gather() : flat->release();
}

void ShardedModel::gather_trained() {
  each_trained([](FlatParameter& flat) { flat.start_gather(); });
  each_trained([](FlatParameter& flat) { flat.finish_gather(); });
}

void ShardedModel::release_trained() {
  if (!kept_gathered_) each_trained([](FlatParameter& flat) { flat.release(); });
}

std::string ShardedModel::units() const {
  if (config_.stage < 3 || config_.unit_size == 0) return "";
  size_t all = 0;
  for (const auto& part : parts_) all += part.size();
  return fmt::format("{} units of at least {} parameters, and what is left of the model as one", all - staying_.size(),
                     config_.unit_size);
}

int64_t ShardedModel::bytes_held() const {
  int64_t bytes = 0;
  for (const auto& part : parts_)
    for (const auto& flat : part) bytes += flat->bytes_held();
  return bytes;
}

std::unique_ptr<ShardedModel> apply_fsdp(model::CausalLM& model, const ShardingConfig& config, ShardingGroups groups,
                                         bool pure_16_bit) {
  return std::make_unique<ShardedModel>(model, config, std::move(groups), pure_16_bit);
}

}  // namespace hone::parallel
