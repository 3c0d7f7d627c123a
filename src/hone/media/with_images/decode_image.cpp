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
    default:
      return decode_webp(bytes, header->size);
  }
}

}  // namespace hone::media
