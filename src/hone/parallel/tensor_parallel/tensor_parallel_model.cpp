#include "hone/parallel/tensor_parallel/tensor_parallel_model.h"

#include <map>

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/device/placeholder.h"
#include "hone/device/tensor_identity.h"
#include "hone/model/decoder.h"

namespace hone::parallel {
namespace {

// Rejects models that tensor or expert parallel training does not support.
void check_shardable(model::CausalLM& model, bool shards_layers) {
  auto refuse = [&](const std::string& what, const char* fix) {
    throw UserError(ExitCode::usage,
                    fmt::format("{}, which {} parallel training does not support", what, shards_layers ? "tensor" : "expert"),
                    fix);
  };
  for (const auto* layer : model.tree().linears()) {
    HONE_CHECK(!layer->quantized, "{} is quantized for inference", layer->name);
    if (!layer->tuners.empty()) refuse(layer->name + " has an adapter that is not LoRA", "use `tuner_type` lora or full");
  }
  for (const auto& slot : model.tree().slots())
    for (const auto& adapter : *slot.adapters)
      if (adapter.magnitude.defined()) refuse(slot.path + " has a DoRA adapter", "use LoRA without `use_dora`");
}

}  // namespace

TensorParallelModel::TensorParallelModel(model::CausalLM& model, const ModelGroups& groups, const TensorParallelOptions& options)
    : model_(model), groups_(groups), sequence_parallel_(options.sequence_parallel) {
  auto& decoder = model.decoder();
  const int64_t holders = groups.experts ? groups.experts->size() : 1;
  if (groups.tensor) model::check_partition(decoder.config, groups.tensor->size(), !groups.has_expert_parallelism());
  if (groups.has_expert_parallelism())
    model::check_expert_partition(decoder.config, holders / groups.expert_tensor_parallel_size,
                                  groups.expert_tensor_parallel_size);
  check_shardable(model, groups.tensor != nullptr);
  at::NoGradGuard no_grad;
  if (groups.tensor)
    shard_layers(options);
  else
    for (const auto& tensor : model::partitioned_experts(decoder)) shard(tensor, options.device);
  shard_quantized(options.device);
  move_rest(options.device);
  if (!groups.has_expert_parallelism()) return;
  if (groups.expert_tensor_parallel_size > 1) {
    const int alike = static_cast<int>(groups.expert_tensor_parallel_size), first = groups.experts->rank() / alike * alike;
    std::vector<int> ranks;
    for (int i = 0; i < alike; ++i) ranks.push_back(first + i);
    expert_replicas_ = groups.experts->subgroup(fmt::format("{}-experts-{}", options.expert_name, first), ranks);
  }
  dispatcher_ = std::make_unique<ExpertAllToAll>(groups.experts, groups.expert_tensor_parallel_size);
  decoder.experts = dispatcher_.get();
}

TensorParallelModel::~TensorParallelModel() {
  model_.decoder().region = nullptr;
  model_.decoder().experts = nullptr;
}

void TensorParallelModel::shard_layers(const TensorParallelOptions& options) {
  auto& decoder = model_.decoder();
  auto& group = *groups_.tensor;
  const int64_t rank = group.rank(), count = group.size(), kv_heads = decoder.config.attention.kv_heads;
  if (kv_heads < count) {
    const int alike = static_cast<int>(count / kv_heads), first = group.rank() / alike * alike;
    std::vector<int> ranks;
    for (int i = 0; i < alike; ++i) ranks.push_back(first + i);
    replicas_ = group.subgroup(fmt::format("{}-heads-{}", options.name, first), ranks);
  }
  const int64_t words = decoder.embedding.weight.size(0);
  for (const auto& tensor : model::partitioned_tensors(decoder)) shard(tensor, options.device);
  for (auto& block : decoder.blocks) {
    full_heads_.push_back({block.shape.heads, block.shape.kv_heads});
    sharded_heads_.push_back({block.shape.heads / count, std::max<int64_t>(block.shape.kv_heads / count, 1)});
  }
  set_heads(sharded_heads_);
  const ProcessRegion::VocabularyRange range{rank * words / count, decoder.embedding.weight.size(0), words,
                                             (words + count - 1) / count};
  region_ = std::make_unique<ProcessRegion>(group, sequence_parallel_, range);
  generation_region_ = std::make_unique<ProcessRegion>(group, /*sequence_parallel=*/false, range);
  decoder.region = region_.get();
}

void TensorParallelModel::set_heads(const std::vector<Heads>& heads) {
  for (size_t i = 0; i < heads.size(); ++i) {
    auto& shape = model_.decoder().blocks[i].shape;
    shape.heads = heads[i].queries, shape.kv_heads = heads[i].keys;
  }
}

void TensorParallelModel::shard(const model::PartitionedTensor& tensor, at::Device device) {
  auto& value = *tensor.value;
  const auto& partition = tensor.partition;
  const bool on_expert_mesh = partition.is_of_experts() && groups_.has_expert_parallelism();
  auto* group = on_expert_mesh ? groups_.experts : groups_.tensor;
  const int64_t rank = group ? group->rank() : 0, count = group ? group->size() : 1;
  const model::PartitionRank holder{rank, count, on_expert_mesh ? groups_.expert_tensor_parallel_size : count};
  Shard shard{value, partition.shard(value.sizes(), holder), partition, group, holder, on_expert_mesh, tensor.value};
  const bool elsewhere = device::is_placeholder(value);  // on another pipeline stage
  value.set_data(elsewhere ? device::placeholder(shard.extent.shape, value.options().device(device))
                           : shard.extent.extract(value.detach()).to(device));
  if (partition.first_rank_only && rank > 0) value = Tensor();  // known here but not computed
  indices_[device::identity_of(shard.value)] = shards_.size();
  shards_.push_back(std::move(shard));
}

// A quantized weight has the values of the unsharded one: its codes are sharded, not quantized again.
void TensorParallelModel::shard_quantized(at::Device device) {
  for (auto* layer : model_.tree().linears()) {
    auto& base = layer->quantized_base;
    if (!base) continue;
    if (const auto index = index_of(layer->weight); is_sharded(index)) {
      auto& shard = shards_[*index];
      const auto& extent = shard.extent;
      const int64_t width = extent.full_shape[1];
      base = base->part({extent.begin / width, extent.shape[0]}, {extent.begin % width, extent.shape[1]})->to(device);
      shard.quantized_layer = layer, shard.quantized_shard = base;
    } else {
      base = base->to(device);
    }
  }
}

// The model was loaded in host memory; each rank takes its shard.
void TensorParallelModel::move_rest(at::Device device) {
  auto move = [&](Tensor& value) {
    if (!value.defined() || index_of(value) || value.device() == device) return;
    value.set_data(device::is_placeholder(value) ? device::placeholder(value.sizes(), value.options().device(device))
                                                 : value.detach().to(device));
  };
  for (const auto& parameter : model_.parameters()) move(*parameter.value);
  for (const auto& slot : model_.tree().slots())
    for (auto& adapter : *slot.adapters) move(adapter.a), move(adapter.b);
}

std::optional<size_t> TensorParallelModel::index_of(const Tensor& parameter) const {
  auto found = indices_.find(device::identity_of(parameter));
  if (found == indices_.end()) return {};
  return found->second;
}

const model::TensorShard* TensorParallelModel::shard_of(const Tensor& parameter) const {
  const auto index = index_of(parameter);
  return is_sharded(index) ? &shards_[*index].extent : nullptr;
}

bool TensorParallelModel::owns(const Tensor& parameter) const {
  const auto index = index_of(parameter);
  if (!index) return groups_.replicas_share_state || groups_.is_first_replica;
  return shards_[*index].is_owner() && (groups_.replicas_share_state || is_of_first_replica(shards_[*index]));
}

bool TensorParallelModel::is_on_expert_mesh(const Tensor& parameter) const {
  const auto index = index_of(parameter);
  return index && shards_[*index].is_on_expert_mesh;
}

bool TensorParallelModel::is_partial(const Shard& shard) const {
  const auto& partition = shard.partition;
  if (partition.gradient == model::PartialGradient::never) return false;
  if (partition.gradient == model::PartialGradient::with_sequence_parallel && !sequence_parallel_) return false;
  return partition.replicas(shard.holder.shards) > 1;
}

ProcessGroup* TensorParallelModel::summed_over(const Tensor& parameter) const {
  const auto index = index_of(parameter);
  if (!index || !is_partial(shards_[*index])) return nullptr;
  const auto& shard = shards_[*index];
  return shard.is_on_expert_mesh ? expert_replicas_.get() : shard.partition.dimension < 0 ? groups_.tensor : replicas_.get();
}

void TensorParallelModel::sum_partial(const std::vector<Gradient>& gradients) {
  for (auto* group : {groups_.tensor, replicas_.get(), expert_replicas_.get()}) {
    if (!group) continue;
    TensorList partial;
    for (const auto& [parameter, value] : gradients) {
      if (!value.defined() || summed_over(parameter) != group) continue;
      if (!fault(fmt::format("tensor_parallel.{}", shards_[*index_of(parameter)].partition.what))) partial.push_back(value);
    }
    sum_over(*group, partial);
  }
}

// One message per dtype.
void TensorParallelModel::sum_over(ProcessGroup& group, const TensorList& gradients) {
  at::NoGradGuard no_grad;
  std::map<at::ScalarType, TensorList> by_type;
  for (const auto& gradient : gradients) by_type[gradient.scalar_type()].push_back(gradient);
  for (auto& [type, list] : by_type) {
    TensorList flat;
    for (const auto& gradient : list) flat.push_back(gradient.reshape({-1}));
    auto all = at::cat(flat);
    group.all_reduce(all)->wait();
    int64_t begin = 0;
    for (auto& gradient : list) {
      gradient.copy_(all.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
      begin += gradient.numel();
    }
  }
}

Tensor TensorParallelModel::squared_norm(const std::vector<Gradient>& gradients) {
  at::NoGradGuard no_grad;
  auto total = at::zeros({}, model_.decoder().norm.weight.options().dtype(at::kFloat).requires_grad(false));
  TensorList own;
  for (const auto& [parameter, value] : gradients)
    if (value.defined() && owns(parameter)) own.push_back(value);
  if (!own.empty()) total = at::stack(at::_foreach_norm(own, 2, at::kFloat)).square().sum().to(total.device());
  groups_.world.all_reduce(total)->wait();
  return total;
}

std::unique_ptr<TensorParallelModel> apply_tensor_parallel(model::CausalLM& model, const ModelGroups& groups,
                                                           const TensorParallelOptions& options) {
  return std::make_unique<TensorParallelModel>(model, groups, options);
}

}  // namespace hone::parallel
