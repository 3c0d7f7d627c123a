// What a vision tower computes of pictures.
#pragma once
#include "hone/device/tensor.h"

namespace hone::model {

// One row for each merged cell, as wide as the language model: [cells, hidden].
struct VisionFeatures {
  Tensor embeddings_nh;
  TensorList deepstack;  // added behind the first decoder blocks, one each
};

}  // namespace hone::model
