#include "hone/parallel/collectives/device_group.h"

#include <exception>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/device/device.h"
#include "hone/parallel/collectives/gloo_group.h"
#include "hone/parallel/collectives/hccl_backend.h"
#include "hone/parallel/collectives/nccl_backend.h"

namespace hone::parallel {
namespace {

CollectiveBackend device_transport(const GroupContext& context, const std::string& name, int rank, int size) {
  auto make = context.config.device.is_privateuseone() ? hccl_backend : nccl_backend;
  return make(context, name, rank, size);
}

// Counts and strings of the host (often float64, which HCCL cannot reduce) use Gloo, and no stream waits for them.
class DeviceGroup final : public BackendGroup {
 public:
  DeviceGroup(const GroupContext& context, const std::string& name, int rank, int size)
      : BackendGroup(context, rank, size, device_transport(context, name, rank, size)),
        host_(make_gloo_group(context, name + "/host", rank, size)) {}
  // A regular shutdown waits for the other ranks; after a failure it must not. That of torch_npu 2.7.1 drops what is queued.
  ~DeviceGroup() override {
    if (std::uncaught_exceptions() > 0) return;
    try {
      device::synchronize(context_.config.device);
      backend().shutdown();
    } catch (const std::exception& cause) {
      log::warning("the last collectives of {} did not finish: {}", device::describe(context_.config.device), cause.what());
    }
  }

  std::unique_ptr<Work> all_reduce(Tensor& values, ReduceOp op) override {
    return values.is_cpu() ? host_->all_reduce(values, op) : BackendGroup::all_reduce(values, op);
  }
  std::unique_ptr<Work> all_gather(Tensor& all, const Tensor& own) override {
    return own.is_cpu() ? host_->all_gather(all, own) : BackendGroup::all_gather(all, own);
  }
  void broadcast(Tensor& values, int root) override {
    values.is_cpu() ? host_->broadcast(values, root) : BackendGroup::broadcast(values, root);
  }
  void barrier() override { host_->barrier(); }

 private:
  std::unique_ptr<ProcessGroup> make(const std::string& name, int rank, int size) const override {
    return make_device_group(context_, name, rank, size);
  }
  std::unique_ptr<ProcessGroup> host_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_device_group(const GroupContext& context, const std::string& name, int rank, int size) {
  return std::make_unique<DeviceGroup>(context, name, rank, size);
}

}  // namespace hone::parallel
