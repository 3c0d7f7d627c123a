// CRC-32C (Castagnoli): for TensorBoard's records and the checksums in our manifests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hone::train {

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
inline uint32_t crc32c(std::string_view text, uint32_t before = 0) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())), before);
}

}  // namespace hone::train
