// The rotary position embedding of a model: its frequencies on the device that computes, and the cosines and sines of a pass.
#pragma once
#include <optional>

#include "hone/model/forward_input.h"
#include "hone/model/rotary/rope_frequencies.h"

namespace hone::model {

// For all layers, or for those with full attention (`global`) and those with a sliding window (`local`).
struct RotaryTables {
  ops::RopeTable global, local = {};  // local: undefined where all layers have the same

  RotaryTables to(at::Device device) const;
};

class RotaryEmbedding {
 public:
  explicit RotaryEmbedding(const DecoderConfig& config);  // which outlives it

  // Writes only on a change, since several threads may compute with one model.
  void to(at::Device device);
  RotaryTables tables(const ForwardInput& input) const;

 private:
  const DecoderConfig& config_;
  RopeFrequencies global_;
  std::optional<RopeFrequencies> local_;
};

}  // namespace hone::model
