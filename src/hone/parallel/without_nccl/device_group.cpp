#include "hone/parallel/device_group.h"

#include "hone/base/error.h"

namespace hone::parallel {

std::unique_ptr<ProcessGroup> make_device_group(const GroupContext& context, const std::string&, int, int) {
  throw UserError(ExitCode::usage, fmt::format("this build of hone has no collectives for {}", context.config.device.str()),
                  "build it against a torch wheel with CUDA, or run on one device");
}

}  // namespace hone::parallel
