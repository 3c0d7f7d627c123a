#include "hone/parallel/collectives/gloo_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "hone/base/error.h"
#include "hone/parallel/collectives/backend_group.h"

namespace hone::parallel {
namespace {

CollectiveBackend gloo_transport(const GroupContext& context, const std::string& name, int rank, int size) {
  using c10d::ProcessGroupGloo;
  auto options = ProcessGroupGloo::Options::create(context.config.collective_timeout);
  // Ranks of one machine use loopback, so that an unresolvable host name does not matter.
  bool one_machine = context.world.local_size == context.world.size;
  const auto& interface = context.config.socket_interface;
  options->devices.push_back(one_machine          ? ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                             : !interface.empty() ? ProcessGroupGloo::createDeviceForInterface(interface)
                                                  : ProcessGroupGloo::createDeviceForHostname(context.own_address));
  return {c10::make_intrusive<ProcessGroupGloo>(store_of(context, name), rank, size, options), SendRecvOrder::free};
}

class GlooGroup final : public BackendGroup {
 public:
  GlooGroup(const GroupContext& context, const std::string& name, int rank, int size)
      : BackendGroup(context, rank, size, gloo_transport(context, name, rank, size)) {}

  // Gloo's own reduce-scatter is an all-reduce that discards most of the result; exchanging parts moves half of the data.
  std::unique_ptr<Work> reduce_scatter(Tensor& own, const Tensor& all) override {
    count(all, 1.0 * (size_ - 1) / size_);
    Tensor input = all, parts = at::empty_like(all);
    std::vector<int64_t> equal_parts;
    return start(
        "reduce-scatter", [&] { return Works{backend().alltoall_base(parts, input, equal_parts, equal_parts)}; },
        [own, parts, size = size_]() mutable {
          at::sum_out(own, parts.view({size, -1}), 0);
        });
  }

 private:
  std::unique_ptr<ProcessGroup> make(const std::string& name, int rank, int size) const override {
    return make_gloo_group(context_, name, rank, size);
  }
};

}  // namespace

std::unique_ptr<ProcessGroup> make_gloo_group(const GroupContext& context, const std::string& name, int rank, int size) {
  try {
    return std::make_unique<GlooGroup>(context, name, rank, size);
  } catch (const c10::Error& cause) {
    lost_peer(context, "connecting the ranks", cause.what_without_backtrace());
  }
}

}  // namespace hone::parallel
