// Columns with structured values.
#pragma once
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/tinker/state/database.h"

namespace hone::tinker {

inline Json stored_json(const std::string& text) {
  auto parsed = parse_json(text);
  return parsed ? std::move(*parsed) : Json();
}

inline std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

inline std::vector<std::string> first_column(Statement& statement) {
  std::vector<std::string> values;
  while (statement.step()) values.push_back(statement.text(0));
  return values;
}

}  // namespace hone::tinker
