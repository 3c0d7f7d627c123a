// The kind and size of a picture, read from its first bytes without decoding it.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

enum class ImageFormat { png, jpeg, webp };

struct ImageHeader {
  ImageFormat format = ImageFormat::png;
  ImageSize size;
};

// Pillow refuses more pixels than this as a decompression bomb.
inline constexpr int64_t kMostPixels = 178'956'970;

// The content decides, not the file's name. Errors: empty, another format, truncated, no pixels, too many.
Result<ImageHeader> read_image_header(std::string_view bytes);

}  // namespace hone::media
