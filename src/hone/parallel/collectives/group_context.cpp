#include "hone/parallel/collectives/group_context.h"

#include "hone/base/error.h"
#include "hone/device/npu/errors.h"

namespace hone::parallel {

void lost_peer(const GroupContext& context, const std::string& doing, const std::string& cause) {
  const auto& device = context.config.device;
  auto known = device.is_privateuseone() ? device::npu::explain(cause) : std::nullopt;
  auto who = context.watch ? context.watch->explain() : std::string();
  std::string reason = known ? known->cause : cause.substr(0, cause.find(device.is_cpu() ? "\n" : "\n\n"));
  // Device backends report the cause of a failure; Gloo only reports a broken connection, which says less than the rank's name.
  if (!who.empty()) reason = device.is_cpu() ? who : reason + "; " + who;
  throw UserError(known ? known->code : ExitCode::lost_peer,
                  fmt::format("rank {} of {}: {} failed: {}", context.world.rank, context.world.size, doing, reason),
                  known ? known->advice : "another process of this run has ended or cannot be reached; its own log says why");
}

}  // namespace hone::parallel
