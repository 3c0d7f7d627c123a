// Decodes PNG, JPEG, WebP, GIF, BMP and TIFF to the same samples as Pillow. Gamma, color profiles and, except in TIFF files,
// EXIF rotation are ignored, as in ms-swift and LLaMA-Factory.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

// The first frame of an animation, the first page of a TIFF file. Errors: those of read_image_header, damaged data, a build
// without the decoders.
Result<Image> decode_image(std::string_view bytes);

}  // namespace hone::media
