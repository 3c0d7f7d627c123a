// What a tuner other than LoRA makes of one linear layer. LoRA is part of the layer's own product; these wrap it: they may turn
// its input, change its output, or both, and keep tensors of their own.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/model/named_parameter.h"

namespace hone::model {

class LinearTuner {
 public:
  using Product = std::function<Tensor(const Tensor& x)>;  // x W^T + b of the base layer, quantized or not
  struct Call {
    const Tensor& x;  // [..., in]
    const Product& product;
    const Tensor& bias;  // undefined where the layer has none
    bool training;
    const Tensor* residual;  // what the block adds the answer to, where the layer ends a block; else null
  };

  virtual ~LinearTuner() = default;

  virtual Tensor forward(const Call& call) const = 0;
  // The weight of the plain layer that computes the same, float32 from float32; for methods that merge.
  virtual Tensor merged(const Tensor& weight) const = 0;
  // What it trains, named by the end of its name in the file: "lora_E", "oft_R.weight".
  virtual std::vector<NamedParameter> tensors() = 0;
  // What is this layer's own too, yet nothing trains.
  virtual std::vector<NamedParameter> fixed() { return {}; }
  // What all layers of the adapter share and nothing trains, under whole names in the file.
  virtual std::vector<NamedParameter> shared() { return {}; }
  // Its block must add the layer's answer as it is.
  virtual bool needs_plain_residual() const { return false; }

  std::string adapter = "default";
  bool active = true;
};

}  // namespace hone::model
