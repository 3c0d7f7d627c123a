// Layers that read the same input, their weights laid end to end so that one product serves them all. For inference, where a small layer
// costs its launch on an accelerator and a meeting of all threads on a CPU.
#pragma once
#include "hone/model/layers.h"

namespace hone::model {

class Joined {
 public:
  // The layers' weights, all as loaded or all rounded, become views of one tensor: what is written into them in place is seen here.
  static Joined of(const std::vector<Linear*>& layers);

  // False once a layer carries an adapter or was given another tensor.
  bool serves(std::initializer_list<const Linear*> layers) const;
  Tensor operator()(const Tensor& x_th) const;  // [T, sum of outputs]

 private:
  Tensor weight_, bias_;  // no weight where it is rounded
  std::shared_ptr<const ops::QuantizedWeight> rounded_;
};

}  // namespace hone::model
