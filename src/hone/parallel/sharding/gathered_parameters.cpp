#include "hone/parallel/sharding/gathered_parameters.h"

#include "hone/base/error.h"
#include "hone/device/tensor_identity.h"

namespace hone::parallel {

bool GatheredParameters::is_needed(const ShardedModel& model) {
  const auto* replicas = model.groups_.replicas;
  return model.config_.stage == 3 && (!replicas || replicas->rank() == 0);
}

GatheredParameters::GatheredParameters(ShardedModel& model)
    : model_(model), requests_(model.groups_.shards, [this](int64_t part) {
        gather(static_cast<size_t>(part));
        return Tensor();
      }) {
  HONE_CHECK(is_needed(model), "all parameters are on every rank");
}

void GatheredParameters::gather(size_t part) {
  release();
  for (auto& flat : model_.parts_[part]) flat->finish_gather();
  gathered_ = part;
}

void GatheredParameters::release() {
  if (gathered_) model_.release(*std::exchange(gathered_, {}));
}

Tensor GatheredParameters::operator()(const Tensor& parameter) {
  at::NoGradGuard no_grad;
  const auto location = model_.locations_.find(device::identity_of(parameter));
  if (location == model_.locations_.end()) return parameter.detach();
  const size_t part = location->second.part;
  if (gathered_ != part) requests_(static_cast<int64_t>(part));
  return parameter.detach().clone();
}

}  // namespace hone::parallel
