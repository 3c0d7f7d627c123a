#include "hone/media/bmp_header.h"

#include <algorithm>
#include <span>

#include "hone/media/byte_order.h"

namespace hone::media {
namespace {

constexpr size_t kFileHeader = 14, kOldest = 12;
constexpr uint32_t kPaletteColors = 256, kMostColors = 65536;  // that are read; that a file may have

Error truncated_bmp(std::string_view bytes) { return error("the BMP file is truncated after {} bytes", bytes.size()); }

using Masks = std::array<uint32_t, 4>;  // red, green, blue, alpha

// Pillow reads these and no others.
bool has_known_masks(const BmpHeader& header) {
  static constexpr Masks kOf16[] = {{0xF800, 0x7E0, 0x1F, 0}, {0x7C00, 0x3E0, 0x1F, 0}}, kOf24[] = {{0xFF0000, 0xFF00, 0xFF, 0}};
  static constexpr Masks kOf32[] = {{0xFF0000, 0xFF00, 0xFF, 0},          {0xFF000000, 0xFF0000, 0xFF00, 0},
                                    {0xFF000000, 0xFF00, 0xFF, 0},        {0xFF000000, 0xFF0000, 0xFF00, 0xFF},
                                    {0xFF, 0xFF00, 0xFF0000, 0xFF000000}, {0xFF0000, 0xFF00, 0xFF, 0xFF000000},
                                    {0xFF000000, 0xFF00, 0xFF, 0xFF0000}};
  const auto known = [&](std::span<const Masks> masks) { return std::ranges::find(masks, header.masks) != masks.end(); };
  return header.bits == 16 ? known(kOf16) : header.bits == 24 ? known(kOf24) : header.bits == 32 && known(kOf32);
}

// 32 bits without masks are blue, green, red and alpha if masks were announced, and no alpha otherwise.
Masks default_masks(uint32_t bits, bool announced) {
  if (bits == 16) return {0x7C00, 0x3E0, 0x1F, 0};
  return {0xFF0000, 0xFF00, 0xFF, announced && bits == 32 ? 0xFF000000 : 0};
}

// Reads the masks in the header or, for its oldest version, behind it. Returns the offset behind them.
Result<size_t> read_masks(std::string_view bytes, size_t length, BmpHeader& header) {
  header.masks = default_masks(header.bits, false);
  const size_t end = kFileHeader + length;
  if (header.coding != BmpCoding::masks) return end;
  const size_t at = kFileHeader + 40, behind = length >= 52 ? end : at + 12;
  if (bytes.size() < behind) return truncated_bmp(bytes);
  const size_t count = length >= 56 && header.bits == 32 ? 4 : 3;  // only 32 bits have room for alpha
  header.masks = {};
  for (size_t i = 0; i < count; ++i) header.masks[i] = little32(bytes, at + 4 * i);
  if (header.bits == 32 && header.masks == Masks{}) header.masks = default_masks(32, true);
  if (!has_known_masks(header))
    return error("a BMP file of {} bits with the masks {:x} {:x} {:x} {:x}, which are not supported", header.bits,
                 header.masks[0], header.masks[1], header.masks[2], header.masks[3]);
  return behind;
}

void read_oldest(std::string_view bytes, BmpHeader& header) {
  header.size = {little16(bytes, 18), little16(bytes, 20)};
  header.bits = little16(bytes, 24);
  header.entry = 3;
}

void read_newer(std::string_view bytes, BmpHeader& header, uint32_t& colors) {
  header.from_top = byte_at(bytes, 25) == 0xFF;
  const uint32_t height = little32(bytes, 22);
  header.size = {little32(bytes, 18), header.from_top ? 0u - height : height};
  header.bits = little16(bytes, 28);
  header.coding = static_cast<BmpCoding>(little32(bytes, 30));
  colors = little32(bytes, 46);
}

bool is_supported(const BmpHeader& header) {
  constexpr std::array<uint32_t, 6> kBits{1, 4, 8, 16, 24, 32};
  if (std::find(kBits.begin(), kBits.end(), header.bits) == kBits.end()) return false;
  if (header.coding == BmpCoding::runs_of_bytes) return header.bits == 8;
  if (header.coding == BmpCoding::runs_of_halves) return header.bits == 4;
  return header.coding == BmpCoding::plain || header.coding == BmpCoding::masks;
}

}  // namespace

Result<BmpHeader> read_bmp_header(std::string_view bytes) {
  constexpr std::array<uint32_t, 7> kLengths{kOldest, 40, 52, 56, 64, 108, 124};
  if (bytes.size() < kFileHeader + 4) return truncated_bmp(bytes);
  const size_t length = little32(bytes, kFileHeader);
  if (std::find(kLengths.begin(), kLengths.end(), length) == kLengths.end())
    return error("a BMP file with a header of {} bytes", length);
  if (bytes.size() < kFileHeader + length) return truncated_bmp(bytes);
  BmpHeader header;
  uint32_t colors = 0;
  length == kOldest ? read_oldest(bytes, header) : read_newer(bytes, header, colors);
  if (!is_supported(header))
    return error("a BMP file of {} bits in coding {}, which is not supported", header.bits, static_cast<uint32_t>(header.coding));
  const auto behind = read_masks(bytes, length, header);
  if (!behind) return Error{behind.error()};
  header.data = little32(bytes, 10);
  if (header.bits <= 8) {
    if (colors == 0) colors = 1u << header.bits;
    if (colors > kMostColors) return error("a BMP file of {} colors; expected at most {}", colors, kMostColors);
    const size_t table = colors * header.entry;
    header.palette = bytes.substr(*behind, std::min(table, kPaletteColors * header.entry));
    if (header.data == 0 || header.data == kFileHeader + length) header.data = *behind + table;
  } else if (header.data == 0) {
    header.data = *behind;
  }
  if (header.size.width == 0 || header.size.height == 0) return header;  // refused by its size
  const bool runs = header.coding == BmpCoding::runs_of_bytes || header.coding == BmpCoding::runs_of_halves;
  const size_t room = header.data < bytes.size() ? bytes.size() - header.data : 0;
  if (room == 0 || (!runs && (room < header.row_bytes() ||
                              (room - header.row_bytes()) / header.stride() + 1 < static_cast<size_t>(header.size.height))))
    return truncated_bmp(bytes);
  return header;
}

}  // namespace hone::media
