// Unsharded weights of a tensor parallel model: gathering them, writing them back, and models that hold them for a while.
#include "hone/device/placeholder.h"
#include "hone/model/decoder.h"
#include "hone/parallel/tensor_parallel/tensor_parallel_model.h"

namespace hone::parallel {

// Exact, whatever the sizes of the parts.
Tensor TensorParallelModel::assembled(const Shard& shard, const Tensor& here) {
  at::NoGradGuard no_grad;
  if (shard.extent.is_full()) return here.clone();
  auto whole = at::empty(shard.extent.full_shape, here.options());
  auto holder = shard.holder;
  const int64_t alike = shard.partition.replicas(holder.shards);
  for (holder.rank = 0; holder.rank < holder.count; holder.rank += alike) {
    const auto extent = shard.partition.shard(shard.extent.full_shape, holder);
    auto values = holder.rank == shard.holder.rank ? here.contiguous() : at::empty(extent.shape, here.options());
    shard.group->broadcast(values, static_cast<int>(holder.rank));
    extent.insert(whole, values);
  }
  return whole;
}

Tensor TensorParallelModel::gathered_shard(size_t index) { return assembled(shards_[index], shards_[index].here()); }

Tensor TensorParallelModel::gathered_values(const Tensor& parameter, const Tensor& shard) {
  const auto index = index_of(parameter);
  return is_sharded(index) ? assembled(shards_[*index], shard) : shard;
}

Tensor TensorParallelModel::gathered(const Tensor& parameter) {
  const auto index = index_of(parameter);
  if (!index) return groups_.is_first_replica ? parameter.detach() : Tensor();
  return is_of_first_replica(shards_[*index]) ? gathered_shard(*index) : Tensor();
}

void TensorParallelModel::fill(const Tensor& parameter, const Tensor& whole) const {
  at::NoGradGuard no_grad;
  const auto index = index_of(parameter);
  auto here = index ? shards_[*index].here() : parameter.detach();
  here.copy_(index ? shards_[*index].extent.extract(whole) : whole);
}

void TensorParallelModel::keep_gathered(bool hold) {
  if (hold == (gathered_ != nullptr)) return;
  at::NoGradGuard no_grad;
  gathered_ = hold ? std::make_unique<UnshardedShapes>(*this) : nullptr;
  for (auto& shard : shards_) {
    // Received from another pipeline stage. A quantized shard is here, and its weight a placeholder.
    const bool elsewhere = !shard.quantized_shard && device::is_placeholder(shard.here());
    if (hold && !elsewhere) gathered_->show(shard.value);
    if (shard.quantized_layer) shard.quantized_layer->quantized_base = hold ? nullptr : shard.quantized_shard;
    if (!shard.partition.first_rank_only) continue;
    if (auto values = shard.value.detach(); hold && !elsewhere) shard.group->broadcast(values, 0);
    if (shard.holder.rank > 0) *shard.in_model = hold ? shard.value : Tensor();
  }
  set_heads(hold ? full_heads_ : sharded_heads_);
  model_.decoder().region = hold ? nullptr : region_.get();
  model_.decoder().experts = hold ? nullptr : dispatcher_.get();
}

// Shards an expert's tensor; the unsharded one is in memory only until this rank has its shard.
void TensorParallelModel::shard_like_layers(size_t index) {
  auto& shard = shards_[index];
  const auto here = shard.here();
  const int64_t ranks = groups_.tensor->size();
  const auto extent = shard.partition.shard(shard.extent.full_shape, groups_.tensor->rank(), ranks);
  auto values = device::is_placeholder(here) ? device::placeholder(extent.shape, here.options())  // on another pipeline stage
                                             : extent.extract(gathered_shard(index));
  shard.kept = here;
  shard.value.set_data(values);
}

void TensorParallelModel::keep_for_generation(bool hold) {
  if (!groups_.tensor) return keep_gathered(hold);
  if (hold == std::exchange(generates_, hold)) return;
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (!shards_[i].is_on_expert_mesh) continue;
    if (hold)
      shard_like_layers(i);
    else
      shards_[i].value.set_data(std::exchange(shards_[i].kept, Tensor()));
  }
  model_.decoder().region = hold ? generation_region_.get() : region_.get();
  model_.decoder().experts = hold ? nullptr : dispatcher_.get();
}

}  // namespace hone::parallel
