// The patch grid of an image: shared by data, model and engine.
#pragma once
#include <cstdint>
#include <string>

namespace hone::ops {

struct PatchGrid {
  int64_t frames = 1, height = 0, width = 0;  // in patches
  bool is_video = false;                      // a model may mark videos and images differently (Ovis2.5)
  int64_t patches() const { return frames * height * width; }
  // "8x4x6", for digests of media.
  std::string str() const {
    return std::to_string(frames) + "x" + std::to_string(height) + "x" + std::to_string(width) + (is_video ? " video" : "");
  }
};

}  // namespace hone::ops
