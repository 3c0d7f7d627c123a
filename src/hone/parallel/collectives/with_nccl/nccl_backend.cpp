#include "hone/parallel/collectives/nccl_backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "hone/base/error.h"

namespace hone::parallel {

CollectiveBackend nccl_backend(const GroupContext& context, const std::string& name, int rank, int size) {
  if (!context.config.device.is_cuda())
    throw UserError(ExitCode::usage, fmt::format("hone has no collectives for {}", context.config.device.str()),
                    "run on one device");
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = context.config.collective_timeout;
  return {c10::make_intrusive<c10d::ProcessGroupNCCL>(store_of(context, name), rank, size, options), SendRecvOrder::together};
}

}  // namespace hone::parallel
