// Differentiable all-to-all between rows and the ranks that hold their experts. One all-to-all sends each row to every rank with
// a shard of its expert, and one returns the partial outputs, which are summed. The volume equals that of an all-to-all over the
// expert parallel ranks plus an all-gather and a reduce-scatter over the expert tensor parallel ranks.
#pragma once
#include "hone/ops/moe/expert_dispatcher.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class ExpertAllToAll final : public ops::ExpertDispatcher {
 public:
  // Each `expert_tensor_parallel_size` consecutive ranks of `group` shard the same experts. Null: this rank has all experts.
  ExpertAllToAll(ProcessGroup* group, int64_t expert_tensor_parallel_size)
      : group_(group), expert_tensor_parallel_size_(expert_tensor_parallel_size) {}

  std::unique_ptr<Route> dispatch(const Tensor& rows_rh, const Tensor& counts_e) override;

 private:
  ProcessGroup* group_;
  int64_t expert_tensor_parallel_size_;
};

}  // namespace hone::parallel
