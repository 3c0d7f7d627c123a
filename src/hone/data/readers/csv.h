// CSV and TSV fields: quotes, doubled quotes, newlines inside quotes. All values stay text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hone/data/row.h"

namespace hone::data {

Result<std::vector<std::string>> split_csv_record(std::string_view record, char separator);
// Fewer fields than columns leave the rest null; more are an error.
Result<Json> parse_csv_row(std::string_view record, char separator, const std::vector<std::string>& columns,
                           const RowOrigin& origin);

// For a file with one column that looks like several with another separator; "" otherwise.
std::string separator_hint(const std::vector<std::string>& columns);

}  // namespace hone::data
