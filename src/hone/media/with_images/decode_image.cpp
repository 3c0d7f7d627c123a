#include "hone/media/decode_image.h"

#include "hone/media/with_images/decoders.h"

namespace hone::media {

Result<Image> decode_image(std::string_view bytes) {
  auto header = read_image_header(bytes);
  if (!header) return Error{header.error()};
  switch (header->format) {
    case ImageFormat::png:
      return decode_png(bytes, header->size);
    case ImageFormat::jpeg:
      return decode_jpeg(bytes, header->size);
    case ImageFormat::webp:
      return decode_webp(bytes, header->size);
    case ImageFormat::gif:
      return decode_gif(bytes);
    case ImageFormat::bmp:
      return decode_bmp(bytes);
    default:
      return decode_tiff(bytes, header->size);
  }
}

Image with_palette(ImageSize size, const std::vector<uint8_t>& indices, std::string_view palette) {
  Image image{size, 3, true, std::vector<uint8_t>(indices.size() * 3)};
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const size_t entry = size_t{3} * indices[i / 3];
    image.pixels[i] = entry + 3 <= palette.size() ? static_cast<uint8_t>(palette[entry + i % 3]) : uint8_t{0};
  }
  return image;
}

}  // namespace hone::media
