#include "hone/media/image.h"

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

}  // namespace hone::media
