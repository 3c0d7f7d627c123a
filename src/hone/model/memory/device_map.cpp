#include "hone/model/memory/device_map.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/progress.h"
#include "hone/io/weight_folder.h"
#include "hone/model/config.h"

namespace hone::model {
namespace {

struct UnitSizes {
  double ends = 0;             // embedding, norm and head
  std::vector<double> blocks;  // bytes
  double total() const { return std::accumulate(blocks.begin(), blocks.end(), ends); }
};

// `blocks`: prefix of the blocks' parameter names, up to the index.
UnitSizes sizes_in(const std::filesystem::path& folder, const std::string& blocks) {
  UnitSizes sizes;
  const io::WeightFolder weights(folder);
  for (const auto& [name, entry] : weights.entries()) {
    double bytes = static_cast<double>(c10::elementSize(entry->dtype));
    for (auto size : entry->shape) bytes *= static_cast<double>(size);
    size_t block = 0;
    const char* digits = name.data() + blocks.size();
    bool in_block = name.starts_with(blocks) && std::from_chars(digits, name.data() + name.size(), block).ec == std::errc() &&
                    block < 100'000;
    if (!in_block) {
      sizes.ends += bytes;
      continue;
    }
    sizes.blocks.resize(std::max(sizes.blocks.size(), block + 1));
    sizes.blocks[block] += bytes;
  }
  return sizes;
}

// The load assigned to each device.
std::vector<double> shares_of(const std::vector<DeviceBudget>& rooms, double total, DeviceMapStrategy how) {
  std::vector<double> shares;
  for (const auto& room : rooms) shares.push_back(room.bytes);
  if (how == DeviceMapStrategy::sequential) return shares;
  double rest = total;
  size_t first = 0;
  if (how == DeviceMapStrategy::low_first) {
    double others = std::accumulate(shares.begin() + 1, shares.end(), 0.0);
    shares[0] = std::max(0.0, total - others);
    rest -= shares[0], first = 1;
  }
  double room = std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(first), shares.end(), 0.0);
  for (size_t i = first; i < shares.size(); ++i) shares[i] *= rest / room;
  return shares;
}

[[noreturn]] void fail_without_memory(const std::filesystem::path& folder, double total, const std::vector<DeviceBudget>& rooms) {
  std::string list;
  for (const auto& room : rooms)
    list += fmt::format("{}{} has room for {}", list.empty() ? "" : ", ", room.device.str(), format_bytes(room.bytes));
  throw UserError(ExitCode::out_of_memory,
                  fmt::format("the weights in {} take {}; {}", folder.string(), format_bytes(total), list),
                  "use more devices, raise `max_memory`, or quantize with `quant_bits` 4");
}

}  // namespace

DeviceMap infer_device_map(const std::filesystem::path& folder, const std::vector<DeviceBudget>& rooms, DeviceMapStrategy how) {
  HONE_CHECK(!rooms.empty(), "no device to place a model on");
  const auto names = read_config(folder).names;
  const auto sizes = sizes_in(folder, fmt::format("{}.{}.", names.model, names.layers));
  const auto shares = shares_of(rooms, sizes.total(), how);
  DeviceMap placement{{"", rooms[0].device}};
  std::vector<double> loads(rooms.size());
  loads[0] = sizes.ends;
  size_t at = 0;
  for (size_t i = 0; i < sizes.blocks.size(); ++i) {
    const double size = sizes.blocks[i], tolerated = how == DeviceMapStrategy::sequential ? size : size / 2;
    while (at + 1 < rooms.size() && loads[at] + tolerated > shares[at]) ++at;
    loads[at] += size;
    placement.insert_or_assign(names.block(static_cast<int64_t>(i)), rooms[at].device);
  }
  for (size_t i = 0; i < rooms.size(); ++i)
    if (loads[i] > rooms[i].bytes) fail_without_memory(folder, sizes.total(), rooms);
  return placement;
}

}  // namespace hone::model
