// Unsharded parameters of a tensor parallel model, for code that writes or reads files.
#include "hone/device/placeholder.h"
#include "hone/parallel/tensor_parallel/tensor_parallel_model.h"

namespace hone::parallel {

UnshardedShapes::UnshardedShapes(TensorParallelModel& model) : model_(model) {
  for (auto& shard : model_.shards_) {
    if (shard.is_elsewhere()) *shard.in_model = shard.value;  // every rank lists the same parameters
    if (shard.extent.is_full()) continue;
    shard.kept = shard.value.detach();
    shard.value.set_data(device::placeholder(shard.extent.full_shape, shard.kept.options()));
  }
}

UnshardedShapes::~UnshardedShapes() {
  for (auto& shard : model_.shards_) {
    if (shard.kept.defined()) shard.value.set_data(std::exchange(shard.kept, Tensor()));
    if (shard.is_elsewhere()) *shard.in_model = Tensor();
  }
}

void UnshardedShapes::show(Tensor parameter) {
  const auto index = model_.index_of(parameter);
  if (model_.is_sharded(index)) parameter.set_data(model_.gathered_shard(*index));
}

UnshardedParameters::UnshardedParameters(TensorParallelModel& model)
    : model_(model), shapes_(model), requests_(model.groups_.world, [&model](int64_t number) {
        const auto index = static_cast<size_t>(number);
        return model.is_of_first_replica(model.shards_[index]) ? model.gathered_shard(index) : Tensor();
      }) {}

Tensor UnshardedParameters::operator()(const Tensor& parameter) const {
  const auto index = model_.index_of(parameter);
  const auto values = model_.is_sharded(index) ? requests_(static_cast<int64_t>(*index)) : parameter.detach();
  return values.to(at::kCPU);
}

}  // namespace hone::parallel
