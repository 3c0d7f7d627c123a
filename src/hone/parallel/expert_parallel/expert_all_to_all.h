// Rows on their way to the processes that hold their experts, and back, differentiable. One all-to-all takes each row to every
// process that has a part of its expert, and one brings the parts of the answer back, where they are added up: the volume is that
// of an exchange among the owners of experts with a gather and a scatter among those that cut them.
#pragma once
#include "hone/ops/moe/expert_dispatcher.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class ExpertAllToAll final : public ops::ExpertDispatcher {
 public:
  // Neighbors of `group`, `cut` of them, cut the same experts. Null: all experts are whole here.
  ExpertAllToAll(ProcessGroup* group, int64_t cut) : group_(group), cut_(cut) {}

  std::unique_ptr<Route> dispatch(const Tensor& rows_rh, const Tensor& counts_e) override;

 private:
  ProcessGroup* group_;
  int64_t cut_;
};

}  // namespace hone::parallel
