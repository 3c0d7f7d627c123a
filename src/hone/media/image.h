// A decoded image: rows from the top, channels interleaved, 8 bits each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hone::media {

struct ImageSize {
  int64_t width = 0, height = 0;
  int64_t pixels() const { return width * height; }
  bool operator==(const ImageSize&) const = default;
};

struct ImageBox {
  int64_t left = 0, top = 0;
  ImageSize size;
  bool operator==(const ImageBox&) const = default;
};

struct Image {
  ImageSize size;
  int channels = 3;           // 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
  bool from_palette = false;  // its colours come out of a table (or are black and white): Pillow resizes it without mixing them
  std::vector<uint8_t> pixels;

  bool has_alpha() const { return channels % 2 == 0; }
};

// a * b / 255 rounded, as Pillow has it.
inline int scaled_to_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Pillow's convert("RGB"): gray is repeated, alpha is dropped, not blended.
Image to_rgb(Image image);

// Crops an image to a box inside it.
Image crop(const Image& image, const ImageBox& box);

}  // namespace hone::media
