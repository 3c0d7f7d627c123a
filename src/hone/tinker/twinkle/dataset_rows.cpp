#include "hone/tinker/twinkle/dataset_rows.h"

#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr size_t kMostBytesOfRows = size_t{1} << 30;

}  // namespace

size_t bytes_in_memory(const Json& value) {
  size_t bytes = sizeof(Json);
  if (value.is_string()) bytes += value.get_ref<const std::string&>().size();
  if (value.is_array())
    for (const auto& each : value) bytes += bytes_in_memory(each);
  if (value.is_object())
    for (const auto& [name, each] : value.items()) bytes += name.size() + 4 * sizeof(void*) + bytes_in_memory(each);
  return bytes;
}

void CountedRows::count(const Json& row) {
  bytes_ += bytes_in_memory(row);
  if (bytes_ > kMostBytesOfRows)
    throw RequestError(
        "the dataset's rows take more than the 1 GB of memory that this server holds for one; send fewer rows, or split the "
        "dataset");
}

void CountedRows::push_back(Json row) {
  count(row);
  rows_.push_back(std::move(row));
}

std::vector<Json> rows_of_data(const Json& data) {
  std::vector<Json> rows;
  if (data.is_array()) {
    for (const auto& row : data) {
      if (!row.is_object()) throw RequestError("dataset_meta: a row of data is not an object");
      rows.push_back(row);
    }
    return rows;
  }
  if (!data.is_object()) throw RequestError("dataset_meta: data is neither a list of rows nor columns");
  for (const auto& [name, values] : data.items()) {
    if (!values.is_array() || (!rows.empty() && values.size() != rows.size()))
      throw RequestError(fmt::format("dataset_meta: column {} has another length than those before it", name));
    rows.resize(values.size(), Json::object());
    for (size_t i = 0; i < values.size(); ++i) rows[i][name] = values[i];
  }
  return rows;
}

std::vector<Json> sliced(const std::vector<Json>& rows, const Json& slice, size_t bytes) {
  std::vector<int64_t> picked;
  if (slice.is_object() && text_field(slice, "_slice_type_", "") == "range") {
    const auto start = required_integer(slice, "start", 0), stop = required_integer(slice, "stop", 0),
               step = required_integer(slice, "step", 1);
    const auto count = stop > start ? (stop - start - 1) / step + 1 : 0;
    if (count > static_cast<int64_t>(kMostRows)) throw RequestError(fmt::format("data_slice: more than {} rows", kMostRows));
    for (int64_t i = 0; i < count; ++i) picked.push_back(start + i * step);
  } else if (slice.is_object() && slice.contains("values") && slice["values"].is_array()) {
    for (const auto& each : slice["values"]) {
      if (!each.is_number_integer() || each.get<int64_t>() < 0)
        throw RequestError("data_slice: expected whole numbers from 0 on");
      picked.push_back(each.get<int64_t>());
    }
  } else {
    throw RequestError("data_slice: expected a range or a list");
  }
  if (rows.empty()) return {};
  CountedRows some(bytes);
  for (auto i : picked) some.push_back(rows[static_cast<size_t>(i) % rows.size()]);
  return some.take();
}

}  // namespace hone::tinker
