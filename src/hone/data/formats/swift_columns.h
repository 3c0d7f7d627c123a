// How ms-swift interprets a row by the names of its columns alone.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/data/formats/format.h"

namespace hone::data {

enum class SwiftRowKind { messages, alpaca, response };

bool has_column(const std::vector<std::string>& columns, const char* name);
SwiftRowKind kind_of(const SwiftFormatOptions& options, const std::vector<std::string>& columns);
// The names that columns of such rows get without being asked for: source -> target.
std::map<std::string, std::string> automatic_columns(SwiftRowKind kind, const std::string& system_role);

}  // namespace hone::data
