#include "hone/parallel/process_group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void lost_peer(const World& world, const std::string& doing, const std::string& cause) {
  throw UserError(ExitCode::lost_peer, fmt::format("rank {} of {}: {} failed: {}", world.rank, world.size, doing, cause.substr(0, cause.find('\n'))),
                  "another process of this run has ended or cannot be reached; its own log says why");
}

class GlooPending final : public Pending {
 public:
  GlooPending(c10::intrusive_ptr<c10d::Work> work, World world, std::string doing)
      : work_(std::move(work)), world_(std::move(world)), doing_(std::move(doing)) {}
  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& cause) {
      lost_peer(world_, doing_, cause.what());
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  World world_;
  std::string doing_;
};

class GlooGroup final : public ProcessGroup {
 public:
  GlooGroup(const World& world, c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds timeout) : ProcessGroup(world) {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    // Ranks of one machine talk over loopback, so that a host name that resolves to nothing does not matter.
    bool one_machine = world.local_size == world.size;
    options->devices.push_back(one_machine ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                           : c10d::ProcessGroupGloo::createDefaultDevice());
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(store), world.rank, world.size, options);
  }

  std::unique_ptr<Pending> all_reduce(Tensor& values) override {
    count(values);
    std::vector<Tensor> tensors{values};
    return pending(group_->allreduce(tensors), "all-reduce");
  }
  void broadcast(Tensor& values, int root) override {
    count(values);
    std::vector<Tensor> tensors{values};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    pending(group_->broadcast(tensors, options), "broadcast")->wait();
  }
  void all_gather(Tensor& all, const Tensor& own) override {
    count(own);
    Tensor input = own;
    pending(group_->_allgather_base(all, input), "all-gather")->wait();
  }
  void reduce_scatter(Tensor& own, const Tensor& all) override {
    count(all);
    Tensor input = all;
    pending(group_->_reduce_scatter_base(own, input), "reduce-scatter")->wait();
  }
  void barrier() override { pending(group_->barrier(), "barrier")->wait(); }

 private:
  void count(const Tensor& values) { bytes_sent_ += static_cast<int64_t>(values.nbytes()); }
  std::unique_ptr<Pending> pending(c10::intrusive_ptr<c10d::Work> work, const char* doing) {
    return std::make_unique<GlooPending>(std::move(work), world_, doing);
  }
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

// Each rank leaves its card in the store, so that whoever waits in vain can say who is missing.
void roll_call(c10d::Store& store, const World& world, Clock::time_point deadline) {
  store.set("hone/here/" + std::to_string(world.rank), std::string("1"));
  for (int rank = 0; rank < world.size; ++rank) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    try {
      store.wait({"hone/here/" + std::to_string(rank)}, std::max(left, std::chrono::milliseconds(100)));
    } catch (const std::exception&) {
      throw UserError(ExitCode::lost_peer, fmt::format("rank {} of {} did not come to {}:{}", rank, world.size, world.master_address, world.master_port),
                      "check that every node was started with the same NNODES, MASTER_ADDR and MASTER_PORT and its own NODE_RANK");
    }
  }
}

}  // namespace

std::unique_ptr<ProcessGroup> ProcessGroup::join(const World& world, std::chrono::seconds timeout) {
  auto deadline = Clock::now() + timeout;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(world.master_port);
  options.isServer = world.is_main();
  options.numWorkers = world.size;
  options.waitWorkers = false;
  options.timeout = timeout;
  c10::intrusive_ptr<c10d::Store> store;
  try {
    store = c10::make_intrusive<c10d::TCPStore>(world.master_address, options);
  } catch (const std::exception& cause) {
    throw UserError(ExitCode::lost_peer,
                    fmt::format("rank {} of {}: cannot {} {}:{}: {}", world.rank, world.size, world.is_main() ? "listen at" : "reach the master at",
                                world.master_address, world.master_port, std::string(cause.what()).substr(0, 200)),
                    "check MASTER_ADDR and MASTER_PORT, and that nothing else uses the port");
  }
  roll_call(*store, world, deadline);
  return std::make_unique<GlooGroup>(world, c10::make_intrusive<c10d::PrefixStore>("hone", store), timeout);
}

void ProcessGroup::require_equal(const std::string& what, const std::string& text) {
  auto mine = at::tensor(static_cast<int64_t>(std::hash<std::string>{}(text)));
  auto all = at::empty({size()}, at::kLong);
  all_gather(all, mine.view({1}));
  for (int other = 0; other < size(); ++other)
    if (all[other].item<int64_t>() != all[0].item<int64_t>())
      throw UserError(ExitCode::lost_peer, fmt::format("rank {} and rank 0 differ in their {}", other, what),
                      "start every process with the same command, files and version of hone");
}

}  // namespace hone::parallel
