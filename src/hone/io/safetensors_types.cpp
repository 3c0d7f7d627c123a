#include "hone/io/safetensors_types.h"

#include <array>
#include <utility>

#include "hone/base/error.h"

namespace hone::io {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 14> kTypes{{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"U32", at::kUInt32},
    {"U64", at::kUInt64},
}};

}  // namespace

std::optional<at::ScalarType> dtype_of(std::string_view name) {
  for (auto [text, dtype] : kTypes)
    if (text == name) return dtype;
  return std::nullopt;
}

std::string_view name_of(at::ScalarType dtype) {
  for (auto [text, type] : kTypes)
    if (type == dtype) return text;
  fail_check("safetensors dtype", __FILE__, __LINE__, c10::toString(dtype));
}

}  // namespace hone::io
