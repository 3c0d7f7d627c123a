#include "hone/parallel/collectives/device_mesh.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

struct Size {
  const char* name;
  int value;
};

// "dp n x fsdp 2 x tp 4": the axes above 1, and the one that takes the remaining ranks.
std::string layout_text(const char* open, const std::vector<Size>& sizes) {
  std::string text = fmt::format("{} n", open);
  for (const auto& [name, value] : sizes)
    if (value > 1) text += fmt::format(" x {} {}", name, value);
  return text;
}

// At most kMany, more than any number of ranks: sizes are a user's.
int64_t product_of(const std::vector<Size>& sizes) {
  constexpr int64_t kMany = int64_t{1} << 31;
  int64_t product = 1;
  for (const auto& [name, value] : sizes) {
    if (value < 1) throw UserError(ExitCode::usage, fmt::format("the size of {} is {}; expected at least 1", name, value));
    product = std::min(product * value, kMany);
  }
  return product;
}

// The size of the open axis for `world` ranks. `note` is added to the hint.
int remaining(const char* open, int wanted, const std::vector<Size>& sizes, int world, const char* note = "") {
  const int64_t inner = product_of(sizes), left = wanted > 0 ? wanted : std::max<int64_t>(world / inner, 1);
  if (left * inner == world) return static_cast<int>(left);
  auto layout = layout_text(open, sizes);
  if (wanted > 0) layout.replace(layout.find(" n"), 2, fmt::format(" {}", wanted));
  const int64_t nearest = wanted > 0 ? left * inner : (world / inner + 1) * inner;
  throw UserError(ExitCode::usage,
                  fmt::format("{} {} cannot be laid out as {}: that takes {}", world, world == 1 ? "process" : "processes",
                              layout, wanted > 0 ? std::to_string(nearest) : fmt::format("a multiple of {}", inner)),
                  world == 1 ? fmt::format("start {} processes with NPROC_PER_NODE={}{}", nearest, nearest, note)
                             : fmt::format("start {} processes, or choose sizes whose product is {}{}", nearest, world, note));
}

}  // namespace

DeviceMesh DeviceMesh::make(const Request& request, int world) {
  const std::vector<Size> sizes{
      {"fsdp", request.fsdp}, {"cp", request.cp}, {"sp", request.sp}, {"tp", request.tp}, {"pp", request.pp}};
  const int dp = remaining("dp", request.dp, sizes, world);
  DeviceMesh mesh(
      request.device_type,
      {{"pp", request.pp}, {"dp", dp}, {"fsdp", request.fsdp}, {"cp", request.cp}, {"sp", request.sp}, {"tp", request.tp}});
  const int inner = request.fsdp * request.cp * request.sp * request.tp;
  if (request.ranks_per_node > 0 && world > request.ranks_per_node && request.ranks_per_node % inner != 0 &&
      inner % request.ranks_per_node != 0)
    mesh.notes_.push_back(fmt::format("groups of {} ranks straddle nodes of {}: each gathers weights over the slower links",
                                      inner, request.ranks_per_node));
  return mesh;
}

DeviceMesh DeviceMesh::make_for_experts(const Request& request, int world) {
  const int etp = request.etp > 0 ? request.etp : request.tp;
  const std::vector<Size> sizes{{"ep", request.ep}, {"etp", etp}, {"pp", request.pp}};
  const bool like_layers = request.etp == 0 && etp > 1;
  const int edp = remaining("edp", 0, sizes, world,
                            like_layers ? "; experts are sharded like layers unless `expert_tensor_parallel_size` is 1" : "");
  return {request.device_type, {{"pp", request.pp}, {"edp", edp}, {"ep", request.ep}, {"etp", etp}}};
}

DeviceMesh::DeviceMesh(std::string device_type, std::vector<Axis> axes)
    : device_type_(std::move(device_type)), axes_(std::move(axes)) {
  for (const auto& axis : axes_) HONE_CHECK(axis.size > 0, "axis {} has size {}", axis.name, axis.size);
}

int DeviceMesh::size() const {
  int product = 1;
  for (const auto& axis : axes_) product *= axis.size;
  return product;
}

int DeviceMesh::size(std::string_view name) const {
  auto found = std::find_if(axes_.begin(), axes_.end(), [&](const Axis& axis) { return axis.name == name; });
  return found == axes_.end() ? 1 : found->size;
}

int DeviceMesh::stride(size_t axis) const {
  int product = 1;
  for (size_t i = axis + 1; i < axes_.size(); ++i) product *= axes_[i].size;
  return product;
}

int DeviceMesh::coordinate(int rank, std::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].name == name) return rank / stride(i) % axes_[i].size;
  return 0;
}

std::vector<int> DeviceMesh::group(int rank, std::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name != name) continue;
    std::vector<int> ranks;
    int first = rank - coordinate(rank, name) * stride(i);
    for (int step = 0; step < axes_[i].size; ++step) ranks.push_back(first + step * stride(i));
    return ranks;
  }
  return {rank};
}

std::vector<int> DeviceMesh::group(int rank, std::initializer_list<std::string_view> axes) const {
  std::vector<int> ranks{rank};
  for (auto axis : axes) {
    std::vector<int> wider;
    for (int member : ranks)
      for (int other : group(member, axis)) wider.push_back(other);
    ranks = std::move(wider);
  }
  std::ranges::sort(ranks);
  return ranks;
}

int DeviceMesh::data_rank(int rank) const { return coordinate(rank, "dp") * size("fsdp") + coordinate(rank, "fsdp"); }

std::string DeviceMesh::str() const {
  std::vector<std::string> sizes;
  for (const auto& axis : axes_)
    if (axis.size > 1) sizes.push_back(fmt::format("{} {}", axis.name, axis.size));
  std::string text = fmt::format("{} mesh of {}{}{}", device_type_, size(), sizes.empty() ? "" : ": ", fmt::join(sizes, " x "));
  for (const auto& axis : axes_) {
    if (axis.size == 1) continue;
    std::vector<std::string> groups;
    for (int rank = 0; rank < size(); ++rank)
      if (coordinate(rank, axis.name) == 0) groups.push_back(fmt::format("[{}]", fmt::join(group(rank, axis.name), " ")));
    constexpr size_t kShown = 8;
    size_t more = groups.size() > kShown ? groups.size() - kShown : 0;
    groups.resize(groups.size() - more);
    text += fmt::format("\n  {:<5}{}{}", axis.name, fmt::join(groups, " "), more ? fmt::format(" and {} more", more) : "");
  }
  for (const auto& note : notes_) text += "\n  note: " + note;
  return text;
}

}  // namespace hone::parallel
