// Arrays on the wire: raw bytes.
#pragma once
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "hone/tinker/wire/request_error.h"

namespace hone::tinker {

static_assert(std::endian::native == std::endian::little, "arrays are sent in the host's byte order");

enum Dtype : uint64_t { kFloat32 = 1, kInt64 = 2, kInt32 = 3, kBFloat16 = 4 };
inline constexpr float kNoCandidate = -99999.0F;  // an empty cell among log-probabilities

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> array_of(std::string_view bytes, const char* what) {
  if (bytes.size() % sizeof(T) != 0)
    throw RequestError(fmt::format("{}: {} bytes are not a whole number of {}-byte values", what, bytes.size(), sizeof(T)));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace hone::tinker
