#include "hone/media/image.h"

#include "hone/base/error.h"

namespace hone::media {

Image to_rgb(Image image) {
  if (image.channels == 3) {
    image.from_palette = false;
    return image;
  }
  const auto step = static_cast<size_t>(image.channels);
  const bool grey = image.channels < 3;
  Image rgb{image.size, 3, false, std::vector<uint8_t>(static_cast<size_t>(image.size.pixels()) * 3)};
  for (size_t i = 0; i < static_cast<size_t>(image.size.pixels()); ++i)
    for (size_t c = 0; c < 3; ++c) rgb.pixels[3 * i + c] = image.pixels[step * i + (grey ? 0 : c)];
  return rgb;
}

Image crop(const Image& image, const ImageBox& box) {
  HONE_CHECK(box.left >= 0 && box.top >= 0 && box.size.width > 0 && box.size.height > 0 &&
                 box.size.width <= image.size.width - box.left && box.size.height <= image.size.height - box.top,
             "a box of {} x {} at {}, {} in a picture of {} x {}", box.size.width, box.size.height, box.left, box.top,
             image.size.width, image.size.height);
  const auto channels = static_cast<size_t>(image.channels), stride = static_cast<size_t>(image.size.width) * channels,
             width = static_cast<size_t>(box.size.width) * channels;
  Image out{box.size, image.channels, image.from_palette, {}};
  out.pixels.reserve(width * static_cast<size_t>(box.size.height));
  const auto* row = image.pixels.data() + static_cast<size_t>(box.top) * stride + static_cast<size_t>(box.left) * channels;
  for (int64_t y = 0; y < box.size.height; ++y, row += stride) out.pixels.insert(out.pixels.end(), row, row + width);
  return out;
}

}  // namespace hone::media
