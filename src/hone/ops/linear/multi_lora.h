// Several adapters in one batch: their rows, and their updates on top of a layer's shared result.
#pragma once
#include "hone/ops/linear/lora_linear.h"

namespace hone::ops {

struct LoraRange {
  std::string adapter;
  int64_t begin, end;
};
using LoraMapping = std::vector<LoraRange>;

// y [T, out] is the layer's result for x [T, in]; each range adds the update of its adapter, if this layer has it.
void add_multi_lora(Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const std::vector<LoraWeights>& adapters, const LoraMapping& rows);

}  // namespace hone::ops
