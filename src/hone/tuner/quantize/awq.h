// AWQ: scales up salient input channels before weights are quantized, and scales down the layer that produces them; then clips
// each group's range if that reduces the error.
#pragma once
#include "hone/tuner/quantize/calibrate.h"
#include "hone/tuner/quantize/group_quantizer.h"

namespace hone::tuner {

// Layers with the same input, and how the scale of its channels is compensated in the producing layer.
struct AwqScaleGroup {
  std::vector<model::Linear*> readers;
  std::function<void(const Tensor& scales)> undo;  // divides the giver's channels; empty: it has none to divide
};
std::vector<AwqScaleGroup> scaled_inputs(model::Block& block);

// Scales the block's weights in place for the best quantization on `config`'s grid; the block's output is unchanged. Returns the
// inputs of the scaled layers.
std::map<const model::Linear*, CalibrationStats> apply_awq_scales(model::Block& block,
                                                                  const std::map<const model::Linear*, CalibrationStats>& seen,
                                                                  const GroupQuantConfig& config);

// The nearest codes on ranges clipped for the smallest output error.
QuantizedWeight quantize_clipped(const Tensor& weight, const CalibrationStats& seen, const GroupQuantConfig& config);

}  // namespace hone::tuner
