#include "hone/parallel/hccl_group.h"

#include <dlfcn.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "hone/base/error.h"
#include "hone/device/npu_errors.h"

namespace hone::parallel {
namespace {

using BackendPointer = c10::intrusive_ptr<c10d::Backend>;
using OptionsPointer = c10::intrusive_ptr<c10d::Backend::Options>;

template <class Function>
Function torch_npu_symbol(const char* name) {
  auto* found = ::dlsym(RTLD_DEFAULT, name);
  if (!found)
    throw UserError(ExitCode::usage, "this torch_npu has no HCCL backend that C++ can construct",
                    "install the torch_npu wheel of your torch");
  return reinterpret_cast<Function>(found);
}

// torch_npu is opened, not linked, and its headers need CANN's. So its classes are built by their exported constructors in memory
// that is larger than any release's object; from then on their virtual functions are c10d's own.
template <class T>
c10::intrusive_ptr<T> built(const std::function<void(void*)>& construct) {
  constexpr size_t kRoom = 64 << 10;
  void* memory = ::operator new(kRoom);
  try {
    construct(memory);
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
  return c10::intrusive_ptr<T>::unsafe_steal_from_new(static_cast<T*>(memory));
}

BackendPointer make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout) {
  auto options = built<c10d::Backend::Options>(
      [](void* memory) { torch_npu_symbol<void (*)(void*, bool)>("_ZN8c10d_npu16ProcessGroupHCCL7OptionsC1Eb")(memory, false); });
  options->timeout = timeout;
  return built<c10d::Backend>([&](void* memory) {
    torch_npu_symbol<void (*)(void*, const c10::intrusive_ptr<c10d::Store>&, int, int, OptionsPointer)>(
        "_ZN8c10d_npu16ProcessGroupHCCLC1ERKN3c1013intrusive_ptrIN4c10d5StoreENS1_6detail34intrusive_target_default_null_typeIS4_"
        "EEEEiiNS2_"
        "INS0_7OptionsENS6_ISB_EEEE")(memory, store, rank, size, options);
  });
}

// HCCL's own words say more than the watch over the peers: both go into the error, with what they mean.
[[noreturn]] void lost(const GroupContext& context, const char* doing, const std::string& cause) {
  auto known = device::npu::explain(cause);
  auto who = context.watch ? context.watch->explain() : std::string();
  throw UserError(known ? known->code : ExitCode::lost_peer,
                  fmt::format("rank {} of {}: {} failed: {}{}", context.world.rank, context.world.size, doing,
                              known ? known->cause : cause.substr(0, cause.find("\n\n")), who.empty() ? "" : "; " + who),
                  known ? known->advice : "another process of this run may have ended; its own log says why");
}

class HcclPending final : public Pending {
 public:
  HcclPending(c10::intrusive_ptr<c10d::Work> work, const GroupContext& context, const char* doing)
      : work_(std::move(work)), context_(context), doing_(doing) {}
  void wait() override {
    try {
      work_->wait();
    } catch (const std::exception& cause) {
      lost(context_, doing_, cause.what());
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  const GroupContext& context_;
  const char* doing_;
};

// Sums and texts of the host (counts, often float64, which HCCL does not add) travel over Gloo beside it.
class HcclGroup final : public ProcessGroup {
 public:
  HcclGroup(const GroupContext& context, const std::string& name, int rank, int size)
      : ProcessGroup(rank, size), context_(context), host_(make_gloo_group(context, name + "/host", rank, size)) {
    group_ = make_backend(c10::make_intrusive<c10d::PrefixStore>("hone/" + name, context.store), rank, size,
                          context.config.collective_timeout);
  }

  std::unique_ptr<Pending> all_reduce(Tensor& values) override {
    if (values.is_cpu()) return host_->all_reduce(values);
    count(values, 2.0 * (size_ - 1) / size_);
    std::vector<Tensor> tensors{values};
    return start("all-reduce", [&] { return group_->allreduce(tensors); });
  }
  std::unique_ptr<Pending> all_gather(Tensor& all, const Tensor& own) override {
    if (own.is_cpu()) return host_->all_gather(all, own);
    count(own, size_ - 1);
    Tensor input = own;
    return start("all-gather", [&] { return group_->_allgather_base(all, input); });
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
  // HCCL runs in the order of the calls: were all to send first, each would wait for a receiver.
  std::unique_ptr<Pending> pass_on(Tensor& received, const Tensor& sent) override {
    count(sent, 1);
    std::vector<Tensor> out{sent}, in{received};
    auto send = [&] { return group_->send(out, (rank_ + 1) % size_, 0); };
    auto receive = [&] { return group_->recv(in, (rank_ + size_ - 1) % size_, 0); };
    if (rank_ % 2 == 0) {
      start("pass-on", send)->wait();
      return start("pass-on", receive);
    }
    auto pending = start("pass-on", receive);
    start("pass-on", send)->wait();
    return pending;
  }
  void broadcast(Tensor& values, int root) override {
    if (values.is_cpu()) return host_->broadcast(values, root);
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
    return make_hccl_group(context_, name, static_cast<int>(position - ranks.begin()), static_cast<int>(ranks.size()));
  }

 private:
  template <class Start>
  std::unique_ptr<Pending> start(const char* doing, Start&& begin) {
    if (context_.watch) context_.watch->enter(doing);
    try {
      return std::make_unique<HcclPending>(begin(), context_, doing);
    } catch (const c10::Error& cause) {
      lost(context_, doing, cause.what_without_backtrace());
    }
  }
  GroupContext context_;
  std::unique_ptr<ProcessGroup> host_;
  BackendPointer group_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_hccl_group(const GroupContext& context, const std::string& name, int rank, int size) {
  return std::make_unique<HcclGroup>(context, name, rank, size);
}

}  // namespace hone::parallel
