// Tensors that the ranks of a group bring together in an order that only the first of them knows: it asks for each by a number,
// and the others follow.
#pragma once
#include <functional>

#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class GatherRequests {
 public:
  // Every rank calls it with the same number at the same time; what it returns counts on the first rank.
  using Gather = std::function<Tensor(int64_t number)>;

  GatherRequests(ProcessGroup& group, Gather gather) : group_(group), gather_(std::move(gather)) {}
  ~GatherRequests();  // of the first rank: tells the followers that it is over
  GatherRequests(const GatherRequests&) = delete;

  Tensor operator()(int64_t number) const;  // on the first rank
  void follow() const;                      // on the others, until the first one is through

 private:
  int64_t announce(int64_t number) const;

  ProcessGroup& group_;
  Gather gather_;
};

}  // namespace hone::parallel
