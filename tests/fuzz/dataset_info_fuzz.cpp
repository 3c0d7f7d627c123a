// Any JSON as a dataset_info entry and as rows of it, of both front ends.
#include <string>

#include "hone/data/datasets/dataset_info.h"
#include "hone/data/formats/python_literal.h"

using namespace hone;
using namespace hone::data;

namespace {

void try_rows(const RowFormat& format, const Json& rows) {
  for (const auto& row : rows.is_array() ? rows : Json::array({rows}))
    if (row.is_object()) (void)format.convert(Row{row, {"fuzz", 1, ""}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)parse_python_literal(text);
  // "ENTRY \0 ROWS": the rows are read the way the entry says.
  auto cut = text.find('\0');
  auto entry = parse_json(text.substr(0, cut));
  auto rows = parse_json(cut == text.npos ? text : text.substr(cut + 1));
  if (!rows) return 0;
  try_rows(*swift_format({}, {}), *rows);
  if (!entry) return 0;
  if (auto factory = parse_factory_entry("fuzz", *entry)) try_rows(*factory_format(factory->format), *rows);
  if (auto swift = parse_swift_entry(*entry, "/")) try_rows(*swift_format(swift->format, {}), *rows);
  return 0;
}
