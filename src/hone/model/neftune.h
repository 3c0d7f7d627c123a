// NEFTune (Jain et al., 2023): noise on the embeddings in training.
#pragma once
#include "hone/model/decoder.h"
#include "hone/model/forward_input.h"

namespace hone::model {

// Adds uniform noise of magnitude alpha / sqrt(length * width) to every sequence's embeddings. `region`, if given, is that of
// tensor parallel ranks: each draws the noise of all rows, so that its own rows get what one process draws.
Tensor add_neftune_noise(const Tensor& x_th, const ForwardInput& input, double alpha, const TensorParallelRegion* region);

}  // namespace hone::model
