#include "hone/parallel/collectives/process_group.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "hone/base/error.h"
#include "hone/parallel/collectives/device_group.h"
#include "hone/parallel/collectives/gloo_group.h"
#include "hone/parallel/launch/rendezvous.h"

namespace hone::parallel {

std::unique_ptr<ProcessGroup> ProcessGroup::join(const World& world, const ProcessGroupOptions& config) {
  GroupContext context{world, config, nullptr, "127.0.0.1", nullptr};
  if (world.distributed()) {
    context.store = open_store(world, config.rendezvous_timeout);
    context.own_address = local_address_for(world.master_address, world.master_port);
    check_members(*context.store, world, config.rendezvous_timeout);
    context.watch = std::make_shared<HeartbeatMonitor>(world, config.heartbeat_timeout);
  } else {
    context.store = c10::make_intrusive<c10d::HashStore>();  // a single process
  }
  auto make = config.device.is_cpu() ? make_gloo_group : make_device_group;
  return make(context, "world", world.rank, world.size);
}

std::vector<std::string> ProcessGroup::gather_text(const std::string& text) {
  auto lengths = at::empty({size()}, at::kLong), length = at::tensor({static_cast<int64_t>(text.size())}, at::kLong);
  all_gather(lengths, length)->wait();
  int64_t longest = std::max<int64_t>(lengths.max().item<int64_t>(), 1);
  auto own = at::zeros({longest}, at::kByte), all = at::empty({size() * longest}, at::kByte);
  std::copy(text.begin(), text.end(), own.mutable_data_ptr<uint8_t>());
  all_gather(all, own)->wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < size(); ++rank) {
    auto* begin = all.const_data_ptr<uint8_t>() + rank * longest;
    texts.emplace_back(begin, begin + lengths[rank].item<int64_t>());
  }
  return texts;
}

void ProcessGroup::require_equal(const std::string& what, const Json& settings) {
  auto texts = gather_text(settings.dump());
  for (int other = 1; other < size(); ++other) {
    if (texts[static_cast<size_t>(other)] == texts[0]) continue;
    auto first = Json::parse(texts[0]), theirs = Json::parse(texts[static_cast<size_t>(other)]);
    std::string difference;
    for (const auto& [key, value] : first.items())
      if (difference.empty() && (!theirs.contains(key) || theirs[key] != value))
        difference = fmt::format(": {} is {} there and {} on rank 0", key, theirs.contains(key) ? theirs[key].dump() : "absent",
                                 value.dump());
    throw UserError(ExitCode::lost_peer, fmt::format("rank {} and rank 0 differ in their {}{}", other, what, difference),
                    "start every process with the same command and files");
  }
}

}  // namespace hone::parallel
