// How a picture is split into patches: the shape that data, model and engine share.
#pragma once
#include <cstdint>

namespace hone::ops {

struct PatchGrid {
  int64_t frames = 1, height = 0, width = 0;  // in patches
  int64_t patches() const { return frames * height * width; }
};

}  // namespace hone::ops
