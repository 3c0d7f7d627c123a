// Frequencies of rotary embedding under the scalings of transformers.
#pragma once
#include "hone/model/config.h"

namespace hone::model {

struct RopeFrequencies {
  Tensor inverse;          // float32 [head_dim / 2] on the CPU
  double magnitude = 1.0;  // of cosines and sines
};

// `length`: positions in use; only the dynamic scaling depends on it, and only beyond the original context.
RopeFrequencies rope_frequencies(const RopeConfig& rope, const DecoderConfig& config, int64_t length);

}  // namespace hone::model
