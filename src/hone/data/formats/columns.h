// Renames columns to the names that formats use: case-insensitive; if two columns map to one name, neither is renamed.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::data {

class ColumnRenaming {
 public:
  // `mapping` is source -> target. `present` are the columns of the dataset's first rows, which decide conflicts.
  ColumnRenaming(const std::map<std::string, std::string>& mapping, const std::vector<std::string>& present);
  // Renames in place, keeping the order. A column first seen in this row is renamed if its target is still free.
  void apply(Json& row) const;
  std::vector<std::string> renamed(const std::vector<std::string>& columns) const;

 private:
  std::string target(const std::string& column) const;
  std::map<std::string, std::string> by_lower_;  // every known source, lower case -> target
  std::map<std::string, std::string> decided_;   // columns of the first rows -> their name
  std::vector<std::string> claimed_;             // targets that a column of the first rows holds or contests
};

}  // namespace hone::data
