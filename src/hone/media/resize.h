// Pillow's Image.resize, bit for bit: separable filters in fixed point, rounded to 8 bits between the two passes.
#pragma once
#include "hone/media/image.h"

namespace hone::media {

enum class Filter { bilinear, bicubic };

// Alpha is multiplied in before and divided out after; colours of a palette are not mixed (nearest). The size must be positive.
Image resize(const Image& image, ImageSize to, Filter filter);

}  // namespace hone::media
