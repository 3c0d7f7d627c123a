// Pillow's Image.resize, bit for bit: separable filters in fixed point, rounded to 8 bits between the two passes.
#pragma once
#include <functional>

#include "hone/media/image.h"

namespace hone::media {

enum class Filter { bilinear, bicubic };

// Alpha is premultiplied before and divided out after; palette colors are not mixed (nearest). The size must be positive.
Image resize(const Image& image, ImageSize to, Filter filter);

// Rows of an image, `count` of them from `first` on. Valid during the call.
using TakeRows = std::function<void(int64_t first, int64_t count, const uint8_t* rows)>;

// The same from the top, `band` rows at a time (fewer at the end), so that data read only once stay in the cache.
void resize_in_bands(const Image& image, ImageSize to, Filter filter, int64_t band, const TakeRows& take);

}  // namespace hone::media
