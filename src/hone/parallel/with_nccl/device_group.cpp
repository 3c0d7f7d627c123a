// NCCL behind the same few calls. Results are ordered by the device's stream, so that wait() does not stop the host.
#include "hone/parallel/device_group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

class NcclPending final : public Pending {
 public:
  NcclPending(c10::intrusive_ptr<c10d::Work> work, const GroupContext& context, const char* doing)
      : work_(std::move(work)), context_(context), doing_(doing) {}
  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& cause) {
      lost_peer(context_, doing_, cause.what());
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  const GroupContext& context_;
  const char* doing_;
};

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(const GroupContext& context, const std::string& name, int rank, int size) : ProcessGroup(rank, size), context_(context) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = context.config.collective_timeout;
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("hone/" + name, context.store), rank, size, options);
  }

  std::unique_ptr<Pending> all_reduce(Tensor& values) override {
    count(values, 2.0 * (size_ - 1) / size_);
    std::vector<Tensor> tensors{on_device(values)};
    auto pending = start("all-reduce", [&] { return group_->allreduce(tensors); });
    return returned(std::move(pending), values, tensors[0]);
  }
  std::unique_ptr<Pending> all_gather(Tensor& all, const Tensor& own) override {
    count(own, size_ - 1);
    Tensor output = on_device(all), input = on_device(own);
    auto pending = start("all-gather", [&] { return group_->_allgather_base(output, input); });
    return returned(std::move(pending), all, output);
  }
  std::unique_ptr<Pending> reduce_scatter(Tensor& own, const Tensor& all) override {
    count(all, 1.0 * (size_ - 1) / size_);
    Tensor input = all;
    return start("reduce-scatter", [&] { return group_->_reduce_scatter_base(own, input); });
  }
  std::unique_ptr<Pending> all_to_all(Tensor& received, const Tensor& sent) override {
    count(sent, 1.0 * (size_ - 1) / size_);
    Tensor input = sent;
    std::vector<int64_t> equal_parts;
    return start("all-to-all", [&] { return group_->alltoall_base(received, input, equal_parts, equal_parts); });
  }
  std::unique_ptr<Pending> pass_on(Tensor& received, const Tensor& sent) override {
    count(sent, 1);
    std::vector<Tensor> out{sent}, in{received};
    return start("pass-on", [&] {
      group_->startCoalescing();
      group_->send(out, (rank_ + 1) % size_, 0);
      group_->recv(in, (rank_ + size_ - 1) % size_, 0);
      return group_->endCoalescing();
    });
  }
  void broadcast(Tensor& values, int root) override {
    count(values, 1.0 * (size_ - 1) / size_);
    std::vector<Tensor> tensors{on_device(values)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    start("broadcast", [&] { return group_->broadcast(tensors, options); })->wait();
    if (!values.is_same(tensors[0])) values.copy_(tensors[0]);
  }
  void barrier() override {
    start("barrier", [&] { return group_->barrier(); })->wait();
  }
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name, const std::vector<int>& ranks) override {
    auto position = std::find(ranks.begin(), ranks.end(), rank_);
    HONE_CHECK(position != ranks.end(), "rank {} is not of the group {}", rank_, name);
    return make_device_group(context_, name, static_cast<int>(position - ranks.begin()), static_cast<int>(ranks.size()));
  }

 private:
  // Small sums of the host (counts, texts) travel through the device.
  Tensor on_device(const Tensor& tensor) const { return tensor.is_cpu() ? tensor.to(context_.config.device) : tensor; }
  static std::unique_ptr<Pending> returned(std::unique_ptr<Pending> pending, Tensor& wanted, const Tensor& used) {
    if (wanted.is_same(used)) return pending;
    pending->wait();
    wanted.copy_(used);
    return pending;
  }
  template <class Start>
  std::unique_ptr<Pending> start(const char* doing, Start&& begin) {
    if (context_.watch) context_.watch->enter(doing);
    try {
      return std::make_unique<NcclPending>(begin(), context_, doing);
    } catch (const c10::Error& cause) {
      lost_peer(context_, doing, cause.what_without_backtrace());
    }
  }
  GroupContext context_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_device_group(const GroupContext& context, const std::string& name, int rank, int size) {
  if (!context.config.device.is_cuda())
    throw UserError(ExitCode::usage, fmt::format("hone has no collectives for {}", context.config.device.str()), "run on one device");
  return std::make_unique<NcclGroup>(context, name, rank, size);
}

}  // namespace hone::parallel
