// The header of a BMP file, in the versions that Pillow reads.
#pragma once
#include <array>
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

enum class BmpCoding : uint32_t { plain = 0, runs_of_bytes = 1, runs_of_halves = 2, masks = 3 };

struct BmpHeader {
  ImageSize size;
  bool from_top = false;
  uint32_t bits = 0;  // of a pixel: 1, 4, 8, 16, 24 or 32
  BmpCoding coding = BmpCoding::plain;
  std::array<uint32_t, 4> masks{};  // of red, green, blue and alpha; of 16 and 32 bits only
  std::string_view palette;         // blue, green, red and, if entry is 4, a byte without meaning
  size_t entry = 4;
  size_t data = 0;  // offset of the pixels

  // Bytes of a row, without and with the padding.
  size_t row_bytes() const { return (static_cast<size_t>(size.width) * bits + 7) / 8; }
  size_t stride() const { return (row_bytes() + 3) / 4 * 4; }
};

// Errors: truncated, an unknown version, an unknown layout of pixels.
Result<BmpHeader> read_bmp_header(std::string_view bytes);

}  // namespace hone::media
