#include "hone/parallel/sharding/wrap_policy.h"

#include <algorithm>
#include <map>

namespace hone::parallel {
namespace {

// The number of name components that form the path of a parameter's unit.
size_t unit_depth(const std::string& name, const std::vector<std::string>& modules) {
  size_t depth = 1;
  for (const auto& path : modules)
    if (name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.')
      depth = std::max(depth, static_cast<size_t>(std::ranges::count(path, '.')) + 1);
  return depth;
}

size_t end_of(const std::string& name, size_t depth) {
  size_t at = 0;
  for (size_t i = 0; i < depth && at != name.npos; ++i) at = name.find('.', at + 1);
  return at;
}

using Members = std::vector<model::NamedParameter>;

// `members` share the first `depth` components of their names, the path of a module.
Members unwrapped(const Members& members, size_t depth, int64_t least, ShardUnits& units) {
  std::map<std::string, Members> inner;
  Members left;
  for (const auto& member : members) {
    const size_t own_end = end_of(member.name, depth), inner_end = end_of(member.name, depth + 1);
    if (own_end == member.name.npos || inner_end == member.name.npos)
      left.push_back(member);
    else
      inner[member.name.substr(0, inner_end)].push_back(member);
  }
  for (const auto& [path, below] : inner)
    for (const auto& member : unwrapped(below, depth + 1, least, units)) left.push_back(member);
  int64_t count = 0;
  for (const auto& member : left) count += member.value->numel();
  if (left.empty() || count < least) return left;
  units.units.push_back(std::move(left));
  return {};
}

}  // namespace

ShardUnits size_based_wrap(const Members& parameters, const std::vector<std::string>& modules, int64_t least) {
  ShardUnits units;
  std::map<std::string, Members> by_module;
  for (const auto& parameter : parameters)
    by_module[parameter.name.substr(0, end_of(parameter.name, unit_depth(parameter.name, modules)))].push_back(parameter);
  for (const auto& [path, members] : by_module)
    for (const auto& member : unwrapped(members, unit_depth(members.front().name, modules), least, units))
      units.root.push_back(member);
  return units;
}

}  // namespace hone::parallel
