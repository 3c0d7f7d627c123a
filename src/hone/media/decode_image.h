// Decodes PNG, JPEG and WebP to the same samples as Pillow. Gamma, color profiles and EXIF rotation are ignored, as in both
// peers.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

// The first frame of an animation. Errors: those of read_image_header, damaged data, a build without the decoders.
Result<Image> decode_image(std::string_view bytes);

}  // namespace hone::media
