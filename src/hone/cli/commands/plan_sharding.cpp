#include "hone/cli/commands/plan_sharding.h"

#include <algorithm>
#include <set>

namespace hone::cli {
namespace {

using train::Sharding;

// The device counts to consider, in order, including the requested one.
std::vector<int> counts_with(int devices) {
  std::set<int> counts(std::begin(kDeviceCounts), std::end(kDeviceCounts));
  counts.insert(devices);
  return {counts.begin(), counts.end()};
}

bool makes_sense(Sharding sharding, int devices) {
  bool offload = sharding == Sharding::zero2_offload || sharding == Sharding::zero3_offload;
  return devices > 1 || sharding == Sharding::none || offload;
}

Json layout_as_json(const ShardingLayout& layout) {
  const auto& plan = layout.memory;
  return {{"devices", layout.devices},
          {"sharding", train::sharding_name(layout.sharding)},
          {"weights", plan.weights},
          {"reference", plan.reference},
          {"gradients", plan.gradients},
          {"optimizer", plan.optimizer},
          {"activations", plan.activations},
          {"logits", plan.logits},
          {"fragmentation", plan.fragmentation},
          {"runtime", plan.runtime},
          {"kv_cache", plan.cache},
          {"host", plan.host},
          {"total", plan.total()},
          {"seconds_per_step", layout.time.seconds()},
          {"fits", layout.fits}};
}

}  // namespace

double ShardingLayout::host() const { return memory.host * std::min(devices, 8); }

ShardingLayout ShardingPlanner::layout(Sharding sharding, int devices) const {
  return layout_on(target_.device, job_.place.cpu, sharding, devices);
}

ShardingLayout ShardingPlanner::layout_on(const train::PlannedDevice& device, bool cpu, Sharding sharding, int devices) const {
  auto place = job_.place;
  place.cpu = cpu;
  place.device_bytes = device.memory_gib * 1024 * 1024 * 1024;
  place.usable_bytes = device.usable_bytes();
  auto memory = train::plan_memory(job_.workload, sharding, devices, place);
  return {devices, sharding, memory, train::predict_step(job_.workload, sharding, devices, device, rate_),
          memory.total() <= device.usable_bytes()};
}

std::vector<ShardingLayout> ShardingPlanner::layouts(int devices) const {
  std::vector<ShardingLayout> all;
  for (auto sharding : train::kShardings)
    if (makes_sense(sharding, devices)) all.push_back(layout(sharding, devices));
  return all;
}

std::vector<ShardingLayout> ShardingPlanner::alternatives(int devices) const {
  std::vector<ShardingLayout> rows;
  for (int count : counts_with(devices)) {
    auto all = layouts(count);
    if (count == devices) {
      rows.insert(rows.end(), all.begin(), all.end());
      continue;
    }
    std::erase_if(all, [](const ShardingLayout& each) { return !each.fits; });
    auto best = std::ranges::min_element(all, {}, [](const ShardingLayout& each) { return each.time.seconds(); });
    if (best != all.end()) rows.push_back(*best);
  }
  return rows;
}

std::optional<ShardingLayout> ShardingPlanner::least_on(const train::PlannedDevice& device, int devices) const {
  for (int count : counts_with(devices))
    for (auto sharding : train::kShardings)
      if (makes_sense(sharding, count))
        if (auto found = layout_on(device, false, sharding, count); found.fits) return found;
  return std::nullopt;
}

double ShardingPlanner::tokens_of_step(int devices) const {
  return static_cast<double>(job_.workload.tokens * job_.workload.accumulation) * devices;
}

Json ShardingPlanner::json(int devices) const {
  Json list = Json::array();
  for (int count : kDeviceCounts)
    for (const auto& each : layouts(count)) list.push_back(layout_as_json(each));
  return {{"model", job_.model},
          {"parameters", job_.workload.parameters},
          {"trained", job_.workload.trained()},
          {"tokens", job_.workload.tokens},
          {"image_tokens", job_.workload.image_tokens},
          {"device", target_.name},
          {"asked", layout_as_json(layout(job_.sharding, devices))},
          {"layouts", list},
          {"assumptions", job_.assumptions}};
}

}  // namespace hone::cli
