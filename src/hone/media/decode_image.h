// Decodes PNG, JPEG and WebP to the samples that Pillow gives. Gamma, colour profiles and EXIF rotation are ignored, as both
// peers do.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

// The first picture of an animation. Errors: what read_image_header says, damaged data, a build without the decoders.
Result<Image> decode_image(std::string_view bytes);

}  // namespace hone::media
