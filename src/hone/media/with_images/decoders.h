// One decoder per format. The header has been read before, so the size is plausible.
#pragma once
#include "hone/media/image_header.h"

namespace hone::media {

Result<Image> decode_png(std::string_view bytes, ImageSize size);
Result<Image> decode_jpeg(std::string_view bytes, ImageSize size);
Result<Image> decode_webp(std::string_view bytes, ImageSize size);
Result<Image> decode_gif(std::string_view bytes);
Result<Image> decode_bmp(std::string_view bytes);
Result<Image> decode_tiff(std::string_view bytes, ImageSize size);

// Colors out of a table of RGB triples. An index behind its end is black, as in Pillow.
Image with_palette(ImageSize size, const std::vector<uint8_t>& indices, std::string_view palette);

}  // namespace hone::media
