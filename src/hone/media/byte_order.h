// Numbers of file headers. The caller has checked that the bytes are there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hone::media {

inline uint32_t byte_at(std::string_view bytes, size_t at) { return static_cast<unsigned char>(bytes[at]); }
inline uint32_t big16(std::string_view bytes, size_t at) { return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1); }
inline uint32_t big32(std::string_view bytes, size_t at) { return big16(bytes, at) << 16 | big16(bytes, at + 2); }
inline uint32_t little16(std::string_view bytes, size_t at) { return byte_at(bytes, at) | byte_at(bytes, at + 1) << 8; }
inline uint32_t little24(std::string_view bytes, size_t at) { return little16(bytes, at) | byte_at(bytes, at + 2) << 16; }
inline uint32_t little32(std::string_view bytes, size_t at) { return little24(bytes, at) | byte_at(bytes, at + 3) << 24; }

}  // namespace hone::media
