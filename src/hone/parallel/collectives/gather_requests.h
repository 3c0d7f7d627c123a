// Gathers tensors over a group in an order that only its first rank determines: it requests each by number, and the other ranks
// follow.
#pragma once
#include <functional>

#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

class GatherRequests {
 public:
  // Every rank calls it with the same number at the same time; only the first rank uses the result.
  using Gather = std::function<Tensor(int64_t number)>;

  GatherRequests(ProcessGroup& group, Gather gather) : group_(group), gather_(std::move(gather)) {}
  ~GatherRequests();  // on the first rank: ends follow() on the others
  GatherRequests(const GatherRequests&) = delete;

  Tensor operator()(int64_t number) const;  // on the first rank
  void follow() const;                      // on the others, until the first one is through

 private:
  int64_t announce(int64_t number) const;

  ProcessGroup& group_;
  Gather gather_;
};

}  // namespace hone::parallel
