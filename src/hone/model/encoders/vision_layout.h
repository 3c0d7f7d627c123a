// Positions of the patches of several images in one packed row: rotary positions, frames, windows and the order that groups
// windows.
#pragma once
#include <vector>

#include "hone/model/encoders/vision_config.h"
#include "hone/model/forward_input.h"

namespace hone::model {

struct VisionLayout {
  Tensor rows_p, columns_p;   // int64 [patches]: of each patch in its frame, in the order of computing
  ops::CuSeqlens frames;      // every frame of every picture sees itself only; with its class token, where there is one
  ops::CuSeqlens windows;     // of the same patches; empty without windows
  Tensor order_c, inverse_c;  // int64 [cells]: from the order of files to that of computing, and back; undefined: they are one
  int64_t patches = 0;
};

// Rows of a square position table and their weights: four for each patch.
struct LearnedPositions {
  Tensor rows_p4, weights_p4;  // int64 and float32 [patches, 4]
};

// On the CPU. `grids` are in patches; their sides are multiples of merge_size.
VisionLayout vision_layout(const std::vector<PatchGrid>& grids, const VisionConfig& config);
// Bilinear, with the corners of the table at the corners of an image; in file order.
LearnedPositions learned_positions(const std::vector<PatchGrid>& grids, const VisionConfig& config);

// Rows of patches with all frames, out of rows of one frame of still images. Others are returned as they are.
Tensor repeat_frames(const Tensor& rows_pr, int64_t row_size, int64_t channels);

}  // namespace hone::model
