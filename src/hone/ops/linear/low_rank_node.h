// How an autograd node with a low-rank linear layer lists, saves and restores the layer's tensors.
#pragma once
#include "hone/device/autograd.h"
#include "hone/ops/linear/low_rank.h"

namespace hone::ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LowRankNode {
  Tensor weight, bias;
  std::vector<LowRankTerm> terms;
  Float8Weight float8;  // of the weight, where products with it are of 8-bit floats

  void append_inputs(TensorList& inputs) const;  // weight, bias if any, a and b of each term
  void append_gradients(const LinearGradients& found,
                        variable_list& result) const;  // in the order of the inputs, for an `apply(inputs, node)`
  bool needs_input_values() const;                     // whether backward reads the layer's input
  NeedsGrad needs(bool x) const;

  void save(AutogradContext* ctx, TensorList activations, const std::vector<LowRankTerm>& computed) const;
  static LowRankNode restore(AutogradContext* ctx, TensorList& activations, size_t activation_count);
};

// The same for nodes of several layers: the tensors of each layer's terms, layer after layer, then the scalars of all.
void append_terms(variable_list& saved, const std::vector<LowRankTerm>& terms);
void save_numbers(AutogradContext* ctx, const std::vector<std::vector<LowRankTerm>>& of_layers);
std::vector<std::vector<LowRankTerm>> restored_terms(AutogradContext* ctx, const variable_list& saved, size_t next);

}  // namespace hone::ops
