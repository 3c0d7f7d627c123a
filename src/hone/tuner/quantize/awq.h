// AWQ: inputs that carry much are scaled up before the weights are rounded, and what gives them is scaled down; then each group's range is
// cut where that costs less than it gains.
#pragma once
#include "hone/tuner/quantize/calibrate.h"
#include "hone/tuner/quantize/grid.h"

namespace hone::tuner {

// Layers that read the same input, and how a scale of its channels is taken out of what gives it.
struct ScaledInput {
  std::vector<model::Linear*> readers;
  std::function<void(const Tensor& scales)> undo;  // divides the giver's channels; empty: it has none to divide
};
std::vector<ScaledInput> scaled_inputs(model::Block& block);

// Scales the block's weights in place for the best rounding on `config`'s grid; what the block computes stays the same.
// Returns the inputs as the scaled layers see them.
std::map<const model::Linear*, SeenInputs> scale_for_rounding(model::Block& block, const std::map<const model::Linear*, SeenInputs>& seen, const GridConfig& config);

// The nearest codes on ranges cut for the least error of the outputs.
RoundedWeight round_clipped(const Tensor& weight, const SeenInputs& seen, const GridConfig& config);

}  // namespace hone::tuner
