// Collects the inputs of a block's layers for calibration texts, block by block.
#pragma once
#include <map>

#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"

namespace hone::tuner {

// Accumulated inputs of a layer: the sums of x xᵀ (weights of rounding errors) and of |x|, over `tokens` of them.
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
  // The inputs of these layers in the current block, with its current weights.
  std::map<const model::Linear*, CalibrationStats> collect(const std::vector<model::Linear*>& layers);
  // Advances to the next block with this block's outputs.
  void step();

 private:
  model::CausalLM& model_;
  std::vector<model::ForwardInput> texts_;
  std::vector<Tensor> states_;  // before the present block
  int64_t at_ = 0;
};

}  // namespace hone::tuner
