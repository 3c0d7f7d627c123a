#include "hone/parallel/gloo_group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class GlooPending final : public Pending {
 public:
  GlooPending(std::vector<WorkPointer> works, const GroupContext& context, std::shared_ptr<double> waited, const char* doing,
              std::function<void()> finish)
      : works_(std::move(works)), context_(context), waited_(std::move(waited)), doing_(doing), finish_(std::move(finish)) {}
  void wait() override {
    auto began = std::chrono::steady_clock::now();
    try {
      for (auto& work : works_) work->wait();
    } catch (const std::exception& cause) {
      lost_peer(context_, doing_, cause.what());
    }
    *waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (finish_) std::exchange(finish_, nullptr)();
  }

 private:
  std::vector<WorkPointer> works_;
  const GroupContext& context_;
  std::shared_ptr<double> waited_;
  const char* doing_;
  std::function<void()> finish_;
};

class GlooGroup final : public ProcessGroup {
 public:
  GlooGroup(const GroupContext& context, const std::string& name, int rank, int size) : ProcessGroup(rank, size), context_(context) {
    auto options = c10d::ProcessGroupGloo::Options::create(context.config.collective_timeout);
    // Ranks of one machine talk over loopback, so that a host name that resolves to nothing does not matter.
    bool one_machine = context.world.local_size == context.world.size;
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    options->devices.push_back(one_machine               ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                               : interface && *interface ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                                         : c10d::ProcessGroupGloo::createDeviceForHostname(context.own_address));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("hone/" + name, context.store), rank, size, options);
  }

  std::unique_ptr<Pending> all_reduce(Tensor& values) override {
    count(values, 2.0 * (size_ - 1) / size_);
    std::vector<Tensor> tensors{values};
    return start("all-reduce", [&] { return group_->allreduce(tensors); });
  }
  std::unique_ptr<Pending> all_gather(Tensor& all, const Tensor& own) override {
    count(own, size_ - 1);
    Tensor input = own;
    return start("all-gather", [&] { return group_->_allgather_base(all, input); });
  }
  // Gloo's own sums everything everywhere and throws most of it away; exchanging parts moves half of that.
  std::unique_ptr<Pending> reduce_scatter(Tensor& own, const Tensor& all) override {
    count(all, 1.0 * (size_ - 1) / size_);
    Tensor input = all, parts = at::empty_like(all);
    return start("reduce-scatter", [&] { return exchange(parts, input); },
                 [own, parts, size = size_]() mutable { at::sum_out(own, parts.view({size, -1}), 0); });
  }
  std::unique_ptr<Pending> all_to_all(Tensor& received, const Tensor& sent) override {
    count(sent, 1.0 * (size_ - 1) / size_);
    Tensor input = sent;
    return start("all-to-all", [&] { return exchange(received, input); });
  }
  std::unique_ptr<Pending> pass_on(Tensor& received, const Tensor& sent) override {
    count(sent, 1);
    enter("pass-on");
    std::vector<Tensor> out{sent}, in{received};
    try {
      auto sending = group_->send(out, (rank_ + 1) % size_, 0), receiving = group_->recv(in, (rank_ + size_ - 1) % size_, 0);
      return std::make_unique<GlooPending>(std::vector<WorkPointer>{receiving, sending}, context_, seconds_waited_, "pass-on", [sent] {});
    } catch (const std::exception& cause) {
      lost_peer(context_, "pass-on", cause.what());
    }
  }
  void broadcast(Tensor& values, int root) override {
    count(values, 1.0 * (size_ - 1) / size_);
    std::vector<Tensor> tensors{values};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    start("broadcast", [&] { return group_->broadcast(tensors, options); })->wait();
  }
  void barrier() override {
    start("barrier", [&] { return group_->barrier(); })->wait();
  }
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name, const std::vector<int>& ranks) override {
    auto position = std::find(ranks.begin(), ranks.end(), rank_);
    HONE_CHECK(position != ranks.end(), "rank {} is not of the group {}", rank_, name);
    return make_gloo_group(context_, name, static_cast<int>(position - ranks.begin()), static_cast<int>(ranks.size()));
  }

 private:
  WorkPointer exchange(Tensor& received, Tensor& sent) {
    std::vector<int64_t> equal_parts;
    return group_->alltoall_base(received, sent, equal_parts, equal_parts);
  }
  void enter(const char* doing) const {
    if (context_.watch) context_.watch->enter(doing);
  }
  template <class Start>
  std::unique_ptr<Pending> start(const char* doing, Start&& begin, std::function<void()> finish = {}) {
    enter(doing);
    try {
      return std::make_unique<GlooPending>(std::vector<WorkPointer>{begin()}, context_, seconds_waited_, doing, std::move(finish));
    } catch (const c10::Error& cause) {
      lost_peer(context_, doing, cause.what_without_backtrace());
    }
  }
  GroupContext context_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

void lost_peer(const GroupContext& context, const std::string& doing, const std::string& cause) {
  std::string who = context.watch ? context.watch->explain() : "";
  throw UserError(ExitCode::lost_peer,
                  fmt::format("rank {} of {}: {} failed: {}", context.world.rank, context.world.size, doing,
                              who.empty() ? cause.substr(0, cause.find('\n')) : who),
                  "another process of this run has ended or cannot be reached; its own log says why");
}

std::unique_ptr<ProcessGroup> make_gloo_group(const GroupContext& context, const std::string& name, int rank, int size) {
  try {
    return std::make_unique<GlooGroup>(context, name, rank, size);
  } catch (const c10::Error& cause) {
    lost_peer(context, "connecting the ranks", cause.what_without_backtrace());
  }
}

}  // namespace hone::parallel
