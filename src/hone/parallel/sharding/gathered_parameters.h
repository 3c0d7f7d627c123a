// Full parameters of a sharded model (ZeRO-3, FSDP), for saving.
#pragma once
#include <optional>

#include "hone/parallel/collectives/gather_requests.h"
#include "hone/parallel/sharding/sharded_model.h"

namespace hone::parallel {

// Gathers full parameters one part at a time, for saving: the first rank reads, the others call follow().
class GatheredParameters {
 public:
  explicit GatheredParameters(ShardedModel& model);
  ~GatheredParameters() { release(); }
  Tensor operator()(const Tensor& parameter);  // a copy of its values
  void follow() const { requests_.follow(); }

  static bool is_needed(const ShardedModel& model);

 private:
  void gather(size_t part);
  void release();

  ShardedModel& model_;
  std::optional<size_t> gathered_;
  GatherRequests requests_;
};

}  // namespace hone::parallel
