// The LoRA factors of one run in one buffer, their gradients in another: norm and optimizer step work on one tensor, and a pass
// adds to the gradients in place.
#pragma once
#include "hone/model/named_parameter.h"
#include "hone/optim/optimizer.h"

namespace hone::tinker {

class FlatFactors {
 public:
  // Moves the factors, float32 on one device, into the buffer: each becomes a leaf with a gradient of zeros.
  explicit FlatFactors(const std::vector<model::NamedParameter>& factors);
  // Whether passes on this factor's device add to gradients in place. Elsewhere autograd's own gradients are cheaper.
  static bool supports(const Tensor& factor);

  optim::ParameterGroup group(double weight_decay) const;
  void zero_grad() { values_.mutable_grad().zero_(); }
  // An optimizer's state by the names of the factors, as checkpoints have it; and back. Throws UserError(bad_checkpoint).
  optim::NamedTensors split(const optim::NamedTensors& state) const;
  optim::NamedTensors joined(const optim::NamedTensors& state, const optim::NamedTensors& saved) const;

 private:
  struct Slice {
    std::string name;
    int64_t begin;
    std::vector<int64_t> shape;

    Tensor of(const Tensor& flat) const;
  };
  std::vector<Slice> slices_;
  Tensor values_;
};

}  // namespace hone::tinker
