// Hints for unknown columns: likely candidates, and the option that maps them.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace hone::data {

using ColumnMap = std::map<std::string, std::string>;  // known column, lower case -> its meaning

// "a, b and 3 more", each quoted.
std::string column_list(const std::vector<std::string>& columns);

// For a row with a query but no response: the columns that may be the response, and how to select one.
std::string response_hint(const std::vector<std::string>& columns, const ColumnMap& known);
// The same for a query that several columns match; "" if at most one does.
std::string question_hint(const std::vector<std::string>& columns, const ColumnMap& known);
// For a row without any known column.
std::string unknown_columns_hint(const std::vector<std::string>& columns, const ColumnMap& known);

// The closest spelling among `names`, "" if none is close.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);

}  // namespace hone::data
