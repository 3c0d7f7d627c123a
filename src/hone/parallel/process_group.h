// Collectives over the processes of a run: c10d's Gloo on CPUs (NCCL and HCCL later), behind the few calls hone makes.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "hone/device/tensor.h"
#include "hone/parallel/world.h"

namespace hone::parallel {

// A collective that has been started; wait() makes its result visible.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

class ProcessGroup {
 public:
  // Meets the other ranks at the master's store. Throws UserError(lost_peer) naming who did not come within `timeout`.
  static std::unique_ptr<ProcessGroup> join(const World& world, std::chrono::seconds timeout);
  virtual ~ProcessGroup() = default;

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }

  // In place, summed over all ranks. Every rank must make the same calls in the same order.
  virtual std::unique_ptr<Pending> all_reduce(Tensor& values) = 0;
  virtual void broadcast(Tensor& values, int root) = 0;
  virtual void all_gather(Tensor& all, const Tensor& own) = 0;       // all is size() times own, flat
  virtual void reduce_scatter(Tensor& own, const Tensor& all) = 0;   // sum
  virtual void barrier() = 0;

  // Every rank must hold the same text (resolved options, versions); throws UserError(lost_peer) naming the first that differs.
  void require_equal(const std::string& what, const std::string& text);
  int64_t bytes_sent() const { return bytes_sent_; }  // payload handed to collectives, for reports

 protected:
  explicit ProcessGroup(const World& world) : world_(world) {}
  World world_;
  int64_t bytes_sent_ = 0;
};

}  // namespace hone::parallel
