#include "hone/model/memory/placement.h"

#include <algorithm>

#include "hone/model/inference/tensor_parallel_decoder.h"

namespace hone::model {

at::Device lookup_device(const DeviceMap& placement, std::string_view parameter, at::Device fallback) {
  for (auto prefix = parameter; !prefix.empty();) {
    if (auto found = placement.find(prefix); found != placement.end()) return found->second;
    auto dot = prefix.rfind('.');
    prefix = prefix.substr(0, dot == prefix.npos ? 0 : dot);
  }
  auto rest = placement.find("");
  return rest == placement.end() ? fallback : rest->second;
}

std::vector<at::Device> block_devices(const Decoder& decoder) {
  if (decoder.shards) return decoder.shards->block_devices();
  std::vector<at::Device> devices;
  for (const auto& block : decoder.blocks) devices.push_back(block.device());
  return devices;
}

std::vector<at::Device> devices_of(const Decoder& decoder) {
  auto all = block_devices(decoder);
  if (!decoder.shards) all.insert(all.begin(), decoder.embedding.weight.device()), all.push_back(decoder.norm.weight.device());
  std::vector<at::Device> devices;
  for (auto device : all)
    if (!std::ranges::count(devices, device)) devices.push_back(device);
  return devices;
}

}  // namespace hone::model
