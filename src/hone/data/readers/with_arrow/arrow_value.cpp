#include "hone/data/readers/with_arrow/arrow_value.h"

#include <arrow/api.h>
#include <simdjson.h>

#include "hone/media/medium.h"

namespace hone::data {
namespace {

template <class ArrayType>
const ArrayType& as(const arrow::Array& array) {
  return static_cast<const ArrayType&>(array);
}

Result<Json> text(std::string_view bytes) {
  if (!simdjson::validate_utf8(bytes.data(), bytes.size())) return Error{"bytes that are not UTF-8; expected text"};
  return Json(std::string(bytes));
}

// Binary data, such as images, become a data: URI.
Result<Json> bytes(std::string_view value) {
  if (simdjson::validate_utf8(value.data(), value.size())) return Json(std::string(value));
  return Json(media::data_uri(value));
}

Result<Json> list(const arrow::Array& values, int64_t begin, int64_t count) {
  Json items = Json::array();
  for (int64_t i = 0; i < count; ++i) {
    auto item = arrow_value(values, begin + i);
    if (!item) return item;
    items.push_back(std::move(item).value());
  }
  return items;
}

Result<Json> object(const arrow::StructArray& array, int64_t row) {
  Json fields = Json::object();
  for (int i = 0; i < array.num_fields(); ++i) {
    auto value = arrow_value(*array.field(i), row);
    if (!value) return value;
    fields[array.struct_type()->field(i)->name()] = std::move(value).value();
  }
  return fields;
}

}  // namespace

Result<Json> arrow_value(const arrow::Array& array, int64_t row) {
  using arrow::Type;
  if (array.IsNull(row)) return Json(nullptr);
  switch (array.type_id()) {
    case Type::STRING:
      return text(as<arrow::StringArray>(array).GetView(row));
    case Type::LARGE_STRING:
      return text(as<arrow::LargeStringArray>(array).GetView(row));
    case Type::BINARY:
      return bytes(as<arrow::BinaryArray>(array).GetView(row));
    case Type::LARGE_BINARY:
      return bytes(as<arrow::LargeBinaryArray>(array).GetView(row));
    case Type::BOOL:
      return Json(as<arrow::BooleanArray>(array).Value(row));
    case Type::INT8:
      return Json(as<arrow::Int8Array>(array).Value(row));
    case Type::INT16:
      return Json(as<arrow::Int16Array>(array).Value(row));
    case Type::INT32:
      return Json(as<arrow::Int32Array>(array).Value(row));
    case Type::INT64:
      return Json(as<arrow::Int64Array>(array).Value(row));
    case Type::UINT8:
      return Json(as<arrow::UInt8Array>(array).Value(row));
    case Type::UINT16:
      return Json(as<arrow::UInt16Array>(array).Value(row));
    case Type::UINT32:
      return Json(as<arrow::UInt32Array>(array).Value(row));
    case Type::UINT64:
      return Json(as<arrow::UInt64Array>(array).Value(row));
    case Type::FLOAT:
      return Json(as<arrow::FloatArray>(array).Value(row));
    case Type::DOUBLE:
      return Json(as<arrow::DoubleArray>(array).Value(row));
    case Type::LIST: {
      const auto& lists = as<arrow::ListArray>(array);
      return list(*lists.values(), lists.value_offset(row), lists.value_length(row));
    }
    case Type::LARGE_LIST: {
      const auto& lists = as<arrow::LargeListArray>(array);
      return list(*lists.values(), lists.value_offset(row), lists.value_length(row));
    }
    case Type::FIXED_SIZE_LIST: {
      const auto& lists = as<arrow::FixedSizeListArray>(array);
      return list(*lists.values(), lists.value_offset(row), lists.value_length(row));
    }
    case Type::STRUCT:
      return object(as<arrow::StructArray>(array), row);
    case Type::DICTIONARY: {
      const auto& words = as<arrow::DictionaryArray>(array);
      return arrow_value(*words.dictionary(), words.GetValueIndex(row));
    }
    default: {
      auto scalar = array.GetScalar(row);
      if (!scalar.ok()) return Error{scalar.status().message()};
      return Json((*scalar)->ToString());
    }
  }
}

}  // namespace hone::data
