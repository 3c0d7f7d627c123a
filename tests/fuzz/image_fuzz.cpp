// Any bytes as a picture: the header is read or refused, and what is decoded has the header's size.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hone/media/decode_image.h"
#include "hone/media/image_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace media = hone::media;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = media::read_image_header(bytes);
  if (!header || header->size.pixels() > 1 << 22) return 0;  // larger ones only take longer
  const auto image = media::decode_image(bytes);
  if (image &&
      (image->size != header->size || image->pixels.size() != static_cast<size_t>(image->size.pixels() * image->channels)))
    __builtin_trap();
  return 0;
}
