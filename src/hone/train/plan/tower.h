// Memory of a micro-batch's images in a vision tower. Its activations scale with patches, several of which form a token.
#pragma once
#include "hone/train/plan/workload.h"

namespace hone::train {

struct TowerMemory {
  double kept = 0;     // until the backward pass has come back to it
  double working = 0;  // of the block that is being computed, and the pixels
};

TowerMemory tower_memory(const Workload& workload);

// Tokens of the largest image: of one tile or square if the model uses those, else as many as `asked`.
int64_t image_tokens(const model::VisionConfig& vision, int64_t asked);

}  // namespace hone::train
