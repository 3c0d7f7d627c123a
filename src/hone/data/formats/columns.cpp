#include "hone/data/formats/columns.h"

#include <algorithm>

#include "hone/base/strings/lower_case.h"

namespace hone::data {

ColumnRenaming::ColumnRenaming(const std::map<std::string, std::string>& mapping, const std::vector<std::string>& present) {
  for (const auto& [source, to] : mapping) by_lower_[lower_case(source)] = to;
  std::map<std::string, int> claims;
  for (const auto& column : present)
    if (auto found = by_lower_.find(lower_case(column)); found != by_lower_.end()) ++claims[found->second];
  for (const auto& column : present) {
    auto found = by_lower_.find(lower_case(column));
    bool wins = found != by_lower_.end() && claims[found->second] == 1;
    decided_[column] = wins ? found->second : column;
    claimed_.push_back(decided_[column]);
  }
  for (const auto& [to, count] : claims) claimed_.push_back(to);
}

std::string ColumnRenaming::target(const std::string& column) const {
  if (auto found = decided_.find(column); found != decided_.end()) return found->second;
  auto found = by_lower_.find(lower_case(column));
  if (found == by_lower_.end()) return column;
  return std::find(claimed_.begin(), claimed_.end(), found->second) == claimed_.end() ? found->second : column;
}

void ColumnRenaming::apply(Json& row) const {
  Json renamed = Json::object();
  auto& fields = renamed.get_ref<Json::object_t&>();
  for (auto& [column, value] : row.get_ref<Json::object_t&>()) {
    auto name = target(column);
    auto taken = std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.first == name; });
    if (taken == fields.end())
      fields.emplace_back(name, std::move(value));
    else if (taken->second.is_null())
      taken->second = std::move(value);
  }
  row = std::move(renamed);
}

std::vector<std::string> ColumnRenaming::renamed(const std::vector<std::string>& columns) const {
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(target(column));
  return names;
}

}  // namespace hone::data
