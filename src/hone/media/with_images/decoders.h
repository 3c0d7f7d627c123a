// One decoder a format. The header was read before, so that the size is believable.
#pragma once
#include "hone/media/image_header.h"

namespace hone::media {

Result<Image> decode_png(std::string_view bytes, ImageSize size);
Result<Image> decode_jpeg(std::string_view bytes, ImageSize size);
Result<Image> decode_webp(std::string_view bytes, ImageSize size);

}  // namespace hone::media
