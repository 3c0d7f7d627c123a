// AWQ: inputs that carry much are scaled up before the weights are rounded, and what gives them is scaled down; then each group's
// range is clipped where that reduces the error.
#pragma once
#include "hone/tuner/quantize/calibrate.h"
#include "hone/tuner/quantize/group_quantizer.h"

namespace hone::tuner {

// Layers that read the same input, and how a scale of its channels is taken out of what gives it.
struct AwqScaleGroup {
  std::vector<model::Linear*> readers;
  std::function<void(const Tensor& scales)> undo;  // divides the giver's channels; empty: it has none to divide
};
std::vector<AwqScaleGroup> scaled_inputs(model::Block& block);

// Scales the block's weights in place for the best rounding on `config`'s grid; what the block computes stays the same.
// Returns the inputs as the scaled layers see them.
std::map<const model::Linear*, CalibrationStats> apply_awq_scales(model::Block& block,
                                                                  const std::map<const model::Linear*, CalibrationStats>& seen,
                                                                  const GroupQuantConfig& config);

// The nearest codes on ranges clipped for the least error of the outputs.
QuantizedWeight quantize_clipped(const Tensor& weight, const CalibrationStats& seen, const GroupQuantConfig& config);

}  // namespace hone::tuner
