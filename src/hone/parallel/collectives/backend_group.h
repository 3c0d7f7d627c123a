// Collectives through any of c10d's backends (Gloo, NCCL, HCCL), which share one interface.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "hone/parallel/collectives/group_context.h"

namespace hone::parallel {

// How two ranks that send to each other avoid a deadlock.
enum class SendRecvOrder {
  free,         // a send does not wait for its receiver
  together,     // both as one call
  alternating,  // calls run in their order: every second process receives first
};

struct CollectiveBackend {
  c10::intrusive_ptr<c10d::Backend> backend;
  SendRecvOrder crossing = SendRecvOrder::free;
};

class BackendGroup : public ProcessGroup {
 public:
  BackendGroup(const GroupContext& context, int rank, int size, CollectiveBackend transport)
      : ProcessGroup(rank, size), context_(context), transport_(std::move(transport)) {}

  std::unique_ptr<Work> all_reduce(Tensor& values, ReduceOp op) override;
  std::unique_ptr<Work> all_gather(Tensor& all, const Tensor& own) override;
  std::unique_ptr<Work> reduce_scatter(Tensor& own, const Tensor& all) override;
  std::unique_ptr<Work> all_to_all(Tensor& received, const Tensor& sent, const RowCounts& received_rows,
                                   const RowCounts& sent_rows) override;
  std::unique_ptr<Work> send(const Tensor& values, int to, int tag) override;
  std::unique_ptr<Work> receive(Tensor& values, int from, int tag) override;
  std::unique_ptr<Work> exchange(const Tensor& sent, int to, Tensor& received, int from, int tag) override;
  void broadcast(Tensor& values, int root) override;
  void barrier() override;
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name, const std::vector<int>& ranks) override;

 protected:
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
  // Starts a collective; `finish` runs when it is waited for, and keeps its captures alive until then.
  std::unique_ptr<Work> start(const char* doing, const std::function<Works()>& begin, std::function<void()> finish = {});
  c10d::Backend& backend() { return *transport_.backend; }
  virtual std::unique_ptr<ProcessGroup> make(const std::string& name, int rank, int size) const = 0;

  GroupContext context_;

 private:
  CollectiveBackend transport_;
};

// The store of one group: no two groups of a run have the same name.
c10::intrusive_ptr<c10d::Store> store_of(const GroupContext& context, const std::string& name);

}  // namespace hone::parallel
