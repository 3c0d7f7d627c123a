#include "hone/parallel/collectives/device_mesh.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::parallel {
namespace {

void refuse_missing(const DeviceMesh::Request& request) {
  const std::pair<const char*, int> missing[] = {
      {"tp (tensor)", request.tp}, {"pp (pipeline)", request.pp}, {"cp (context)", request.cp}, {"ep (expert)", request.ep}};
  for (const auto& [name, size] : missing)
    if (size != 1)
      throw UserError(ExitCode::usage,
                      fmt::format("the mesh asks for {} parallelism of {}, which is not in this version", name, size),
                      "shard parameters instead (--deepspeed zero3), or split long sequences (--sequence_parallel_size)");
}

}  // namespace

DeviceMesh DeviceMesh::plan(const Request& request, int world) {
  refuse_missing(request);
  auto positive = [](const char* name, int size) {
    if (size < 1) throw UserError(ExitCode::usage, fmt::format("the size of {} is {}; expected at least 1", name, size));
  };
  positive("fsdp", request.fsdp);
  positive("sp", request.sp);
  int inner = request.fsdp * request.sp, dp = request.dp > 0 ? request.dp : std::max(world / inner, 1);
  if (dp * inner != world)
    throw UserError(ExitCode::usage,
                    fmt::format("{} processes cannot be laid out as dp {} x fsdp {} x sp {}: that takes {}", world,
                                request.dp > 0 ? std::to_string(dp) : "n", request.fsdp, request.sp,
                                request.dp > 0 ? std::to_string(dp * inner) : fmt::format("a multiple of {}", inner)),
                    fmt::format("start {} processes, or choose sizes whose product is {}",
                                request.dp > 0 ? dp * inner : (world / inner + 1) * inner, world));
  DeviceMesh mesh(request.device_type, {{"dp", dp}, {"fsdp", request.fsdp}, {"sp", request.sp}});
  if (request.ranks_per_node > 0 && world > request.ranks_per_node && request.ranks_per_node % inner != 0 &&
      inner % request.ranks_per_node != 0)
    mesh.notes_.push_back(fmt::format("groups of {} ranks straddle nodes of {}: each gathers weights over the slower links",
                                      inner, request.ranks_per_node));
  return mesh;
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
  for (const auto& remark : notes_) text += "\n  note: " + remark;
  return text;
}

}  // namespace hone::parallel
