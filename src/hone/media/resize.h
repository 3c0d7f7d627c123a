// Pillow's Image.resize, bit for bit: separable filters in fixed point, rounded to 8 bits between the two passes.
#pragma once
#include <functional>

#include "hone/media/image.h"

namespace hone::media {

enum class Filter { bilinear, bicubic };

// Alpha is multiplied in before and divided out after; colours of a palette are not mixed (nearest). The size must be positive.
Image resize(const Image& image, ImageSize to, Filter filter);

// Rows of a picture, `count` of them from `first` on. They live as long as the call.
using TakeRows = std::function<void(int64_t first, int64_t count, const uint8_t* rows)>;

// The same from the top, `band` rows at a time (fewer at the end): what a caller only reads once need not leave the cache.
void resize_in_bands(const Image& image, ImageSize to, Filter filter, int64_t band, const TakeRows& take);

}  // namespace hone::media
