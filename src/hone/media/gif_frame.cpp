#include "hone/media/gif_frame.h"

#include <algorithm>

#include "hone/media/byte_order.h"

namespace hone::media {
namespace {

constexpr size_t kScreen = 13, kDescriptor = 10;  // bytes of the logical screen and of a frame's descriptor
constexpr uint32_t kHasPalette = 0x80, kInterlaced = 0x40, kMostCodeBits = 8;

Error truncated_gif(std::string_view bytes) { return error("the GIF file is truncated after {} bytes", bytes.size()); }

bool is_gray_ramp(std::string_view palette) {
  for (size_t i = 0; i < palette.size(); ++i)
    if (byte_at(palette, i) != i / 3) return false;
  return true;
}

// The palette at an offset, which moves behind it.
std::optional<std::string_view> palette_at(std::string_view bytes, size_t& at, uint32_t flags) {
  const size_t size = size_t{3} << ((flags & 7) + 1);
  if (bytes.size() - at < size) return std::nullopt;
  const auto palette = bytes.substr(at, size);
  at += size;
  return is_gray_ramp(palette) ? std::string_view() : palette;
}

// Behind the blocks at an offset, which end with an empty one.
std::optional<size_t> behind_blocks(std::string_view bytes, size_t at) {
  while (at < bytes.size()) {
    const size_t length = byte_at(bytes, at);
    if (length == 0) return at + 1;
    at += 1 + length;
  }
  return std::nullopt;
}

// Passes extensions and stops at a frame's descriptor.
Result<size_t> first_descriptor(std::string_view bytes, size_t at, GifFrame& frame) {
  for (; at < bytes.size() && byte_at(bytes, at) != ';'; ++at) {
    if (byte_at(bytes, at) == ',') return at;
    if (byte_at(bytes, at) != '!') continue;  // padding
    const bool control = at + 6 < bytes.size() && byte_at(bytes, at + 1) == 0xF9 && byte_at(bytes, at + 2) >= 4;
    if (control && (byte_at(bytes, at + 3) & 1)) frame.transparent = static_cast<uint8_t>(byte_at(bytes, at + 6));
    const auto behind = behind_blocks(bytes, at + 2);
    if (!behind) return truncated_gif(bytes);
    at = *behind - 1;
  }
  if (at >= bytes.size()) return truncated_gif(bytes);
  return error("a GIF file without a frame");
}

}  // namespace

Result<GifFrame> read_gif_frame(std::string_view bytes) {
  if (bytes.size() < kScreen) return truncated_gif(bytes);
  GifFrame frame;
  size_t at = kScreen;
  const auto global = byte_at(bytes, 10) & kHasPalette ? palette_at(bytes, at, byte_at(bytes, 10)) : std::string_view();
  if (!global) return truncated_gif(bytes);
  const auto descriptor = first_descriptor(bytes, at, frame);
  if (!descriptor) return Error{descriptor.error()};
  if (bytes.size() - *descriptor < kDescriptor) return truncated_gif(bytes);
  at = *descriptor + 1;
  frame.box = {little16(bytes, at), little16(bytes, at + 2), {little16(bytes, at + 4), little16(bytes, at + 6)}};
  if (frame.box.size.pixels() == 0)
    return error("a GIF frame of {} x {} pixels; expected a picture", frame.box.size.width, frame.box.size.height);
  frame.canvas = {std::max<int64_t>(little16(bytes, 6), frame.box.left + frame.box.size.width),
                  std::max<int64_t>(little16(bytes, 8), frame.box.top + frame.box.size.height)};
  const uint32_t flags = byte_at(bytes, at + 8);
  frame.interlaced = flags & kInterlaced;
  at += 9;
  const auto palette = flags & kHasPalette ? palette_at(bytes, at, flags) : global;
  if (!palette || at >= bytes.size()) return truncated_gif(bytes);
  frame.palette = *palette;
  frame.code_bits = byte_at(bytes, at);
  if (frame.code_bits > kMostCodeBits)
    return error("a GIF file of {} bits a color; expected at most {}", frame.code_bits, kMostCodeBits);
  frame.data = at + 1;
  if (!bytes.ends_with(';') && !behind_blocks(bytes, frame.data)) return truncated_gif(bytes);
  return frame;
}

}  // namespace hone::media
