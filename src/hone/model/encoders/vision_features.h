// Outputs of a vision tower.
#pragma once
#include "hone/device/tensor.h"

namespace hone::model {

// One row per merged cell, as wide as the language model: [cells, hidden].
struct VisionFeatures {
  Tensor embeddings_nh;
  TensorList deepstack;  // added behind the first decoder blocks, one each
};

}  // namespace hone::model
