#include "hone/parallel/collectives/nccl_backend.h"

#include "hone/base/error.h"

namespace hone::parallel {

CollectiveBackend nccl_backend(const GroupContext& context, const std::string&, int, int) {
  throw UserError(ExitCode::usage, fmt::format("this build of hone has no collectives for {}", context.config.device.str()),
                  "build it against a torch wheel with CUDA and the NCCL it comes with, or run on one device");
}

}  // namespace hone::parallel
