#include "hone/parallel/collectives/backend_group.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

class BackendWork final : public Work {
 public:
  BackendWork(std::vector<c10::intrusive_ptr<c10d::Work>> works, const GroupContext& context, std::shared_ptr<double> waited,
              const char* doing, std::function<void()> finish)
      : works_(std::move(works)), context_(context), waited_(std::move(waited)), doing_(doing), finish_(std::move(finish)) {}
  void wait() override {
    auto began = std::chrono::steady_clock::now();
    try {
      for (auto& work : works_) work->wait();  // on an accelerator its stream waits, the host does not
    } catch (const std::exception& cause) {
      lost_peer(context_, doing_, cause.what());
    }
    *waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (finish_) std::exchange(finish_, nullptr)();
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  const GroupContext& context_;
  std::shared_ptr<double> waited_;
  const char* doing_;
  std::function<void()> finish_;
};

c10d::AllreduceOptions reduction(ReduceOp op) {
  c10d::AllreduceOptions options;
  options.reduceOp = op == ReduceOp::max ? c10d::ReduceOp::MAX : op == ReduceOp::min ? c10d::ReduceOp::MIN : c10d::ReduceOp::SUM;
  return options;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> store_of(const GroupContext& context, const std::string& name) {
  return c10::make_intrusive<c10d::PrefixStore>("hone/" + name, context.store);
}

std::unique_ptr<Work> BackendGroup::start(const char* doing, const std::function<Works()>& begin, std::function<void()> finish) {
  if (context_.watch) context_.watch->enter(doing);
  try {
    return std::make_unique<BackendWork>(begin(), context_, std::shared_ptr<double>(traffic_, &traffic_->seconds_waited), doing,
                                         std::move(finish));
  } catch (const c10::Error& cause) {
    lost_peer(context_, doing, cause.what_without_backtrace());
  }
}

std::unique_ptr<Work> BackendGroup::all_reduce(Tensor& values, ReduceOp op) {
  count(values, 2.0 * (size_ - 1) / size_);
  std::vector<Tensor> tensors{values};
  return start("all-reduce", [&] { return Works{backend().allreduce(tensors, reduction(op))}; });
}

std::unique_ptr<Work> BackendGroup::all_gather(Tensor& all, const Tensor& own) {
  count(own, size_ - 1);
  Tensor input = own;
  return start("all-gather", [&] { return Works{backend()._allgather_base(all, input)}; });
}

std::unique_ptr<Work> BackendGroup::reduce_scatter(Tensor& own, const Tensor& all) {
  count(all, 1.0 * (size_ - 1) / size_);
  Tensor input = all;
  return start("reduce-scatter", [&] { return Works{backend()._reduce_scatter_base(own, input)}; });
}

std::unique_ptr<Work> BackendGroup::all_to_all(Tensor& received, const Tensor& sent, const RowCounts& received_rows,
                                               const RowCounts& sent_rows) {
  const auto all = static_cast<double>(std::max<int64_t>(sent.size(0), 1)), size = static_cast<double>(size_);
  count(sent, sent_rows.empty() ? (size - 1) / size : 1 - static_cast<double>(sent_rows[static_cast<size_t>(rank_)]) / all);
  Tensor input = sent;
  auto in = received_rows, out = sent_rows;
  return start("all-to-all", [&] { return Works{backend().alltoall_base(received, input, in, out)}; });
}

std::unique_ptr<Work> BackendGroup::send(const Tensor& values, int to, int tag) {
  count(values, 1);
  std::vector<Tensor> tensors{values};
  return start(
      "send", [&] { return Works{backend().send(tensors, to, tag)}; }, [values] {});
}

std::unique_ptr<Work> BackendGroup::receive(Tensor& values, int from, int tag) {
  std::vector<Tensor> tensors{values};
  return start("receive", [&] { return Works{backend().recv(tensors, from, tag)}; });
}

std::unique_ptr<Work> BackendGroup::exchange(const Tensor& sent, int to, Tensor& received, int from, int tag) {
  count(sent, 1);
  std::vector<Tensor> out{sent}, in{received};
  auto send = [&] { return Works{backend().send(out, to, tag)}; };
  auto receive = [&] { return Works{backend().recv(in, from, tag)}; };
  constexpr const char* kDoing = "pass-on";
  if (transport_.crossing == SendRecvOrder::free)
    return start(
        kDoing,
        [&] {
          auto sending = send(), works = receive();
          works.push_back(sending.front());
          return works;
        },
        [sent] {});
  if (transport_.crossing == SendRecvOrder::together)
    return start(
        kDoing,
        [&] {
          backend().startCoalescing();
          send();
          receive();
          return Works{backend().endCoalescing()};
        },
        [sent] {});
  bool receives_first = rank_ % 2 == 1;
  auto receiving = receives_first ? start(kDoing, receive) : nullptr;
  start(kDoing, send)->wait();
  return receiving ? std::move(receiving) : start(kDoing, receive);
}

void BackendGroup::broadcast(Tensor& values, int root) {
  count(values, 1.0 * (size_ - 1) / size_);
  std::vector<Tensor> tensors{values};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  start("broadcast", [&] { return Works{backend().broadcast(tensors, options)}; })->wait();
}

void BackendGroup::barrier() {
  start("barrier", [&] { return Works{backend().barrier()}; })->wait();
}

std::unique_ptr<ProcessGroup> BackendGroup::subgroup(const std::string& name, const std::vector<int>& ranks) {
  auto position = std::find(ranks.begin(), ranks.end(), rank_);
  HONE_CHECK(position != ranks.end(), "rank {} is not of the group {}", rank_, name);
  return counted_here(make(name, static_cast<int>(position - ranks.begin()), static_cast<int>(ranks.size())));
}

}  // namespace hone::parallel
