// Names of dtypes in safetensors files.
#pragma once
#include <optional>
#include <string_view>

#include "hone/device/tensor.h"

namespace hone::io {

std::optional<at::ScalarType> dtype_of(std::string_view name);  // "BF16" and so on
std::string_view name_of(at::ScalarType dtype);                 // checks that the format has the type

}  // namespace hone::io
