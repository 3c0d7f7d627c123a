// LISA: of all layers a few, redrawn every so many steps, train; the embeddings, the last norm and the head always do.
#pragma once
#include <cstdint>
#include <vector>

#include "hone/model/causal_lm.h"
#include "hone/train/config.h"

namespace hone::train {

class LayerSampling {
 public:
  // Throws UserError when the model has fewer layers.
  LayerSampling(model::CausalLM& model, const LayerSamplingConfig& config, uint64_t seed);
  // `step` counts from 0 and alone decides with the seed, so that a resumed run draws the same layers.
  void before_step(int64_t step);
  std::vector<int64_t> drawn(int64_t step) const;

 private:
  LayerSamplingConfig config_;
  uint64_t seed_;
  std::vector<std::vector<Tensor>> layers_;  // what trains of each
};

}  // namespace hone::train
