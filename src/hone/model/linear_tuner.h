// A tuner other than LoRA on one linear layer. LoRA is part of the layer's own product; these wrap it: they may transform its
// input, change its output, or both, and have their own tensors.
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
    const Tensor* residual;  // what the block adds the output to, where the layer ends a block; else null
  };

  virtual ~LinearTuner() = default;

  virtual Tensor forward(const Call& call) const = 0;
  // The weight of an equivalent plain layer, float32 from float32; for methods that can be merged.
  virtual Tensor merged(const Tensor& weight) const = 0;
  // Its trained tensors, by the suffix of their name in the file: "lora_E", "oft_R.weight".
  virtual std::vector<NamedParameter> tensors() = 0;
  // Its frozen tensors.
  virtual std::vector<NamedParameter> fixed() { return {}; }
  // Frozen tensors shared by all layers of the adapter, under full names in the file.
  virtual std::vector<NamedParameter> shared() { return {}; }
  // Its block must add the layer's output unchanged.
  virtual bool needs_plain_residual() const { return false; }

  std::string adapter = "default";
  bool active = true;
};

}  // namespace hone::model
