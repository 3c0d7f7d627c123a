// One decoder per format. The header has been read before, so the size is plausible.
#pragma once
#include "hone/media/image_header.h"

namespace hone::media {

Result<Image> decode_png(std::string_view bytes, ImageSize size);
Result<Image> decode_jpeg(std::string_view bytes, ImageSize size);
Result<Image> decode_webp(std::string_view bytes, ImageSize size);

}  // namespace hone::media
