// What goes into the layers of a block when texts pass through it, one block after the other.
#pragma once
#include <map>

#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"

namespace hone::tuner {

// Inputs of a layer summed up: the sum of x xᵀ (what rounding errors weigh) and of |x|, over `tokens` of them.
struct CalibrationStats {
  Tensor hessian;   // float32 [in, in]
  Tensor abs_sums;  // float32 [in]
  int64_t tokens = 0;
};

class BlockwiseCalibration {
 public:
  BlockwiseCalibration(model::CausalLM& model, std::vector<model::ForwardInput> texts);

  int64_t blocks() const { return model_.config().layers; }
  model::Block& block() { return model_.decoder().blocks.at(static_cast<size_t>(at_)); }
  // What these layers of the present block see, as its weights are now.
  std::map<const model::Linear*, CalibrationStats> collect(const std::vector<model::Linear*>& layers);
  // On to the next block, with what this one makes of the texts.
  void step();

 private:
  model::CausalLM& model_;
  std::vector<model::ForwardInput> texts_;
  std::vector<Tensor> states_;  // before the present block
  int64_t at_ = 0;
};

}  // namespace hone::tuner
