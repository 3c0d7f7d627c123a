// The format and size of an image, read from its first bytes without decoding.
#pragma once
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

enum class ImageFormat { png, jpeg, webp, gif, bmp, tiff };

struct ImageHeader {
  ImageFormat format = ImageFormat::png;
  ImageSize size;
};

// Pillow rejects more pixels than this as a decompression bomb.
inline constexpr int64_t kMostPixels = 178'956'970;

// The format is detected by content, not by file name. Errors: empty, unsupported format, truncated, no pixels, too many.
Result<ImageHeader> read_image_header(std::string_view bytes);

}  // namespace hone::media
