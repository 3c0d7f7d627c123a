// The first frame of a GIF file: its place on the canvas, its colours, and where its data begin.
#pragma once
#include <optional>
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

struct GifFrame {
  ImageSize canvas;  // large enough for the frame
  ImageBox box;
  std::optional<uint8_t> transparent;  // the color that the canvas has around the frame
  std::string_view palette;            // RGB triples; empty: indices are gray levels
  bool interlaced = false;
  uint32_t code_bits = 0;  // of the LZW codes at the beginning
  size_t data = 0;         // offset of the blocks of codes
};

// Errors: truncated, no frame, a frame without pixels.
Result<GifFrame> read_gif_frame(std::string_view bytes);

}  // namespace hone::media
