// BMP files, plain or as runs, with the samples of Pillow.
#include <algorithm>
#include <bit>

#include "hone/media/bmp_header.h"
#include "hone/media/byte_order.h"
#include "hone/media/with_images/decoders.h"

namespace hone::media {
namespace {

// As Pillow reads runs: pixels in the order of the file, which a row may leave only by its end or by a jump.
class BmpRuns {
 public:
  BmpRuns(std::string_view bytes, const BmpHeader& header)
      : bytes_(bytes),
        at_(header.data),
        halves_(header.coding == BmpCoding::runs_of_halves),
        width_(static_cast<size_t>(header.size.width)) {
    pixels_.reserve(static_cast<size_t>(header.size.pixels()));
    wanted_ = static_cast<size_t>(header.size.pixels());
  }

  Result<std::vector<uint8_t>> read() {
    while (pixels_.size() < wanted_ && at_ + 2 <= bytes_.size()) {
      const uint32_t count = byte_at(bytes_, at_), value = byte_at(bytes_, at_ + 1);
      at_ += 2;
      if (count > 0)
        repeat(count, value);
      else if (!(value > 2 ? copy(value) : escape(value)))
        break;
    }
    if (pixels_.size() < wanted_) return error("a damaged BMP file: its data end after {} of {} pixels", pixels_.size(), wanted_);
    return std::move(pixels_);
  }

 private:
  void repeat(size_t count, uint32_t value) {
    count = std::min(count, x_ < width_ ? width_ - x_ : 0);
    for (size_t i = 0; i < count && pixels_.size() < wanted_; ++i)
      pixels_.push_back(static_cast<uint8_t>(!halves_ ? value : i % 2 ? value & 15 : value >> 4));
    x_ += count;
  }

  // The end of a row, the end of the picture, or a jump to the right and up.
  bool escape(uint32_t kind) {
    if (kind == 1) return false;
    if (kind == 0) {
      pixels_.resize((pixels_.size() + width_ - 1) / width_ * width_);
      x_ = 0;
      return true;
    }
    if (at_ + 2 > bytes_.size()) return false;
    const size_t jump = byte_at(bytes_, at_) + byte_at(bytes_, at_ + 1) * width_;
    at_ += 2;
    pixels_.resize(std::min(wanted_, pixels_.size() + jump));
    x_ = pixels_.size() % width_;
    return true;
  }

  bool copy(size_t count) {
    const size_t pixels = std::min(count, wanted_ - pixels_.size()), length = halves_ ? (pixels + 1) / 2 : pixels;
    if (at_ + length > bytes_.size()) return false;
    for (size_t i = 0; i < pixels; ++i) {
      const uint32_t value = byte_at(bytes_, at_ + (halves_ ? i / 2 : i));
      pixels_.push_back(static_cast<uint8_t>(!halves_ ? value : i % 2 ? value & 15 : value >> 4));
    }
    at_ += length;
    x_ += count;
    at_ += at_ % 2;  // runs begin at even offsets of the file
    return true;
  }

  std::string_view bytes_;
  size_t at_;
  bool halves_;
  size_t width_, wanted_ = 0, x_ = 0;
  std::vector<uint8_t> pixels_;
};

// Indices of 1, 4 or 8 bits, rows in the order of the file.
std::vector<uint8_t> plain_indices(std::string_view bytes, const BmpHeader& header) {
  std::vector<uint8_t> indices;
  indices.reserve(static_cast<size_t>(header.size.pixels()));
  const uint32_t last = (1u << header.bits) - 1;
  for (size_t y = 0; y < static_cast<size_t>(header.size.height); ++y) {
    const auto row = bytes.substr(header.data + y * header.stride(), header.row_bytes());
    for (size_t x = 0; x < static_cast<size_t>(header.size.width); ++x) {
      const size_t bit = x * header.bits;
      indices.push_back(static_cast<uint8_t>(byte_at(row, bit / 8) >> (8 - header.bits - bit % 8) & last));
    }
  }
  return indices;
}

// Pillow drops a palette that is a gray ramp, and calls black and white a mode of its own.
bool is_gray_palette(const BmpHeader& header) {
  const size_t colors = header.palette.size() / header.entry;
  for (size_t i = 0; i < colors; ++i)
    for (size_t c = 0; c < 3; ++c)
      if (byte_at(header.palette, i * header.entry + c) != i) return false;
  return colors > 2;
}

Image colored(const BmpHeader& header, std::vector<uint8_t> indices) {
  if (is_gray_palette(header)) return {header.size, 1, false, std::move(indices)};
  std::string palette;
  for (size_t at = 0; at + header.entry <= header.palette.size(); at += header.entry)
    for (size_t c = 3; c-- > 0;) palette.push_back(header.palette[at + c]);
  return with_palette(header.size, indices, palette);
}

uint8_t sample(uint32_t pixel, uint32_t mask) {
  const uint32_t most = mask >> std::countr_zero(mask);
  return static_cast<uint8_t>(((pixel & mask) >> std::countr_zero(mask)) * 255 / most);
}

// Pixels of 16, 24 or 32 bits, rows in the order of the file.
Image masked(std::string_view bytes, const BmpHeader& header) {
  Image image{header.size, header.masks[3] ? 4 : 3, false, {}};
  image.pixels.reserve(static_cast<size_t>(header.size.pixels() * image.channels));
  const size_t step = header.bits / 8;
  for (size_t y = 0; y < static_cast<size_t>(header.size.height); ++y)
    for (size_t x = 0; x < static_cast<size_t>(header.size.width); ++x) {
      const size_t at = header.data + y * header.stride() + x * step;
      const uint32_t pixel = step == 2 ? little16(bytes, at) : step == 3 ? little24(bytes, at) : little32(bytes, at);
      for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) image.pixels.push_back(sample(pixel, header.masks[c]));
    }
  return image;
}

void flip_vertically(Image& image) {
  const auto stride = image.size.width * image.channels;
  for (int64_t top = 0, bottom = image.size.height - 1; top < bottom; ++top, --bottom)
    std::swap_ranges(image.pixels.begin() + top * stride, image.pixels.begin() + (top + 1) * stride,
                     image.pixels.begin() + bottom * stride);
}

}  // namespace

Result<Image> decode_bmp(std::string_view bytes) {
  const auto header = read_bmp_header(bytes);
  if (!header) return Error{header.error()};
  const bool plain = header->coding == BmpCoding::plain || header->coding == BmpCoding::masks;
  Image image;
  if (header->bits > 8) {
    image = masked(bytes, *header);
  } else {
    auto indices = plain ? Result(plain_indices(bytes, *header)) : BmpRuns(bytes, *header).read();
    if (!indices) return Error{indices.error()};
    image = colored(*header, std::move(*indices));
  }
  if (!header->from_top) flip_vertically(image);
  return image;
}

}  // namespace hone::media
