#include "hone/data/readers/csv.h"

#include "hone/base/terminal.h"
#include "hone/data/readers/encoding.h"
#include "hone/data/row_report.h"

namespace hone::data {

Result<std::vector<std::string>> split_csv_record(std::string_view record, char separator) {
  std::vector<std::string> fields(1);
  if (record.ends_with('\r')) record.remove_suffix(1);
  bool quoted = false;
  for (size_t i = 0; i < record.size(); ++i) {
    char c = record[i];
    if (quoted) {
      if (c != '"')
        fields.back() += c;
      else if (i + 1 < record.size() && record[i + 1] == '"')
        fields.back() += '"', ++i;
      else
        quoted = false;
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

Result<Json> parse_csv_row(std::string_view record, char separator, const std::vector<std::string>& columns,
                           const RowOrigin& origin) {
  if (auto problem = encoding_problem(record); !problem.empty()) return row_error(RowProblem::encoding, origin.str(), problem);
  auto fields = split_csv_record(record, separator);
  if (!fields) return row_error(RowProblem::columns, origin.str(), fields.error());
  if (fields->size() > columns.size()) {
    auto other = separator_hint(columns);
    return row_error(RowProblem::columns, origin.str(),
                     other.empty() ? fmt::format("{} fields; expected {}", fields->size(), columns.size()) : other);
  }
  Json row = Json::object();
  auto& cells = row.get_ref<Json::object_t&>();  // names are unique; looking up each one would take quadratic time
  for (size_t i = 0; i < columns.size(); ++i)
    cells.emplace_back(columns[i], i < fields->size() ? Json(std::move((*fields)[i])) : Json(nullptr));
  return row;
}

std::string separator_hint(const std::vector<std::string>& columns) {
  if (columns.size() != 1) return "";
  for (std::string_view separator : {";", "\t", "|", "；", "，", "、"})
    if (columns.front().find(separator) != std::string::npos)
      return fmt::format(
          "the first line is one column, \"{}\", whose parts {} separates; expected commas, or tabs in a file called .tsv",
          terminal::truncate(columns.front(), 60), separator == "\t" ? std::string("a tab") : fmt::format("\"{}\"", separator));
  return "";
}

}  // namespace hone::data
