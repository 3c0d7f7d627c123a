// Rotary frequencies with the scalings of transformers.
#pragma once
#include "hone/model/config.h"
#include "hone/ops/attention/rope.h"

namespace hone::model {

struct RopeFrequencies {
  Tensor inverse;          // float32 [head_dim / 2] on the CPU
  double magnitude = 1.0;  // of cosines and sines
  Tensor axes = {};        // M-RoPE: int64 [head_dim / 2], the axis of the position that each frequency uses
};

// `length`: positions in use; only the dynamic scaling depends on it, and only beyond the original context.
RopeFrequencies rope_frequencies(const RopeConfig& rope, const DecoderConfig& config, int64_t length);

ops::RopeTable rope_table(const Tensor& positions_t, const RopeFrequencies& frequencies);

}  // namespace hone::model
