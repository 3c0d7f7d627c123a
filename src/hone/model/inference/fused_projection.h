// Layers with the same input whose weights are concatenated, so that one product serves all. For inference, where a small layer
// costs a launch on an accelerator and a thread barrier on a CPU, and for training on a GPU.
#pragma once
#include "hone/model/layers.h"
#include "hone/ops/linear/joint_linear.h"

namespace hone::model {

class CausalLM;

// Inference: fuses projections with the same input if that is faster and nothing trains them.
void fuse_projections(CausalLM& model);
// Training on a GPU: the same, with any tuner (ops/linear/joint_linear.h). Trained tensors keep their identity.
void join_trained_projections(CausalLM& model);

class FusedProjection {
 public:
  // The layers' weights, all full-precision or all quantized, become views of one tensor: in-place updates are visible here.
  static FusedProjection of(const std::vector<Linear*>& layers);

  // float8 products in training (ops/linear/float8_weight.h), of these layers together and separately.
  void round_weights(const std::vector<Linear*>& layers);
  bool round_for_inference();  // products of more than a few rows; false where the device has none

  // False once a layer has an adapter or another tensor.
  bool is_current_for(std::initializer_list<const Linear*> layers) const;
  Tensor operator()(const Tensor& x_th) const;      // [T, sum of outputs]
  const Tensor& weight() const { return weight_; }  // undefined where it is rounded, or nothing is joined
  const Tensor& bias() const { return bias_; }

  // Training on a GPU: layers with or without LoRA, weights frozen or trained. Empty if they must be computed separately.
  TensorList trained(std::initializer_list<const Linear*> layers, const Tensor& x_th, const LinearContext& mode,
                     const ops::RopeTable* rope = nullptr) const;
  // The same for gate and up, whose LoRA updates may be left to the operator that reads them (ops/linear/joint_linear.h).
  TensorList trained_gate_up(const Linear& gate, const Linear& up, const Tensor& x_th, const LinearContext& mode,
                             ops::cuda::GateUpdates& updates) const;

 private:
  std::optional<ops::JointLayers> joint_layers(std::initializer_list<const Linear*> layers, const Tensor& x_th,
                                               const LinearContext& mode) const;
  bool lies_under(std::initializer_list<const Linear*> layers) const;
  Tensor weight_, bias_;  // no weight where it is rounded
  ops::Float8Weight float8_;
  std::shared_ptr<const ops::PackedWeight> rounded_;
};

}  // namespace hone::model
