// LISA: trains a few randomly drawn layers at a time, and always the embeddings, the final norm and the head.
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
  // `step` counts from 0 and, with the seed, determines the layers, so that a resumed run draws the same ones.
  void before_step(int64_t step);
  std::vector<int64_t> drawn(int64_t step) const;

 private:
  LayerSamplingConfig config_;
  uint64_t seed_;
  std::vector<std::vector<Tensor>> layers_;  // what trains of each
};

}  // namespace hone::train
