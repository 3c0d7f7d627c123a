#include "hone/data/readers/csv.h"

#include <simdjson.h>

#include "hone/data/row_report.h"

namespace hone::data {

Result<std::vector<std::string>> split_csv_record(std::string_view record, char separator) {
  std::vector<std::string> fields(1);
  if (record.ends_with('\r')) record.remove_suffix(1);
  bool quoted = false;
  for (size_t i = 0; i < record.size(); ++i) {
    char c = record[i];
    if (quoted) {
      if (c != '"') fields.back() += c;
      else if (i + 1 < record.size() && record[i + 1] == '"') fields.back() += '"', ++i;
      else quoted = false;
    } else if (c == '"' && fields.back().empty()) {
      quoted = true;
    } else if (c == separator) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted) return Error{"a quoted field never ends; expected a closing quote"};
  return fields;
}

Result<Json> parse_csv_row(std::string_view record, char separator, const std::vector<std::string>& columns, const RowOrigin& origin) {
  if (!simdjson::validate_utf8(record.data(), record.size()))
    return row_error(RowProblem::encoding, origin.str(), "bytes that are not UTF-8; expected UTF-8");
  auto fields = split_csv_record(record, separator);
  if (!fields) return row_error(RowProblem::columns, origin.str(), fields.error());
  if (fields->size() > columns.size())
    return row_error(RowProblem::columns, origin.str(), fmt::format("{} fields; expected {}", fields->size(), columns.size()));
  Json row = Json::object();
  for (size_t i = 0; i < columns.size(); ++i) row[columns[i]] = i < fields->size() ? Json(std::move((*fields)[i])) : Json(nullptr);
  return row;
}

}  // namespace hone::data
