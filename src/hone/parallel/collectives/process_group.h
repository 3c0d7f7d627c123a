// Collectives over the processes of a run: c10d's Gloo on CPUs, NCCL on CUDA, HCCL on NPUs, as the few calls that hone needs.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/device/tensor.h"
#include "hone/parallel/launch/world.h"

namespace hone::parallel {

// A collective that has been started; wait() makes its result visible.
class Work {
 public:
  virtual ~Work() = default;
  virtual void wait() = 0;
};

struct ProcessGroupOptions {
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(5);   // for all ranks to connect
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(30);  // for one collective
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(60);   // without a heartbeat, until a rank counts as lost
  at::Device device{at::kCPU};
  std::string socket_interface;  // that Gloo uses between machines; empty: the one of this machine's name
};

enum class ReduceOp { sum, max, min };

class ProcessGroup {
 public:
  // Connects to the other ranks through the master's store. Throws UserError(lost_peer) that names the ranks that did not
  // connect, or that have another world size.
  static std::unique_ptr<ProcessGroup> join(const World& world, const ProcessGroupOptions& config);
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Every rank must make the same calls in the same order. Contiguous tensors; parts are of equal size unless rows are given.
  virtual std::unique_ptr<Work> all_reduce(Tensor& values, ReduceOp op = ReduceOp::sum) = 0;
  virtual std::unique_ptr<Work> all_gather(Tensor& all, const Tensor& own) = 0;
  virtual std::unique_ptr<Work> reduce_scatter(Tensor& own, const Tensor& all) = 0;
  // All-to-all: rank i gets the next sent_rows[i] rows of `sent`, and received_rows[j] rows come from rank j; empty: equal parts.
  using RowCounts = std::vector<int64_t>;
  virtual std::unique_ptr<Work> all_to_all(Tensor& received, const Tensor& sent, const RowCounts& received_rows = {},
                                           const RowCounts& sent_rows = {}) = 0;
  // Point to point. A receive matches a send with the same tag; messages of one tag keep their order.
  virtual std::unique_ptr<Work> send(const Tensor& values, int to, int tag) = 0;
  virtual std::unique_ptr<Work> receive(Tensor& values, int from, int tag) = 0;
  // Both at once, where two ranks send to each other: neither waits for the other to receive first.
  virtual std::unique_ptr<Work> exchange(const Tensor& sent, int to, Tensor& received, int from, int tag) = 0;
  // To the next rank of the ring, from the previous one.
  std::unique_ptr<Work> ring_shift(Tensor& received, const Tensor& sent) {
    return exchange(sent, (rank_ + 1) % size_, received, (rank_ + size_ - 1) % size_, 0);
  }
  virtual void broadcast(Tensor& values, int root) = 0;
  virtual void barrier() = 0;

  // A subgroup of these ranks, in the given order. Each of them calls it, with the same name.
  virtual std::unique_ptr<ProcessGroup> subgroup(const std::string& name, const std::vector<int>& ranks) = 0;

  std::vector<std::string> gather_text(const std::string& text);
  // Every rank must hold the same settings; throws UserError(lost_peer) naming the first rank and key that differ.
  void require_equal(const std::string& what, const Json& settings);
  // Bytes that this rank has sent so far, by the algorithms of its collectives, and seconds that it has waited for others;
  // includes its subgroups.
  int64_t bytes_sent() const { return traffic_->bytes_sent; }
  double seconds_waited() const { return traffic_->seconds_waited; }

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}
  void count(const Tensor& payload, double share) {
    traffic_->bytes_sent += static_cast<int64_t>(static_cast<double>(payload.nbytes()) * share);
  }
  struct Traffic {
    int64_t bytes_sent = 0;
    double seconds_waited = 0;
  };
  std::unique_ptr<ProcessGroup> counted_here(std::unique_ptr<ProcessGroup> group) const {
    group->traffic_ = traffic_;
    return group;
  }
  int rank_, size_;
  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();  // shared with subgroups and pending collectives
};

}  // namespace hone::parallel
