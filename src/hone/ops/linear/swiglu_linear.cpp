#include "hone/ops/linear/swiglu_linear.h"

#include "hone/device/autograd.h"
#include "hone/device/memory.h"
#include "hone/ops/column_sums.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/linear/low_rank_node.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/linear/rounded_low_rank.h"
#include "hone/ops/swiglu.h"

namespace hone::ops {
namespace {

bool supports_halves_on_gpu(const Tensor& gate, const Tensor& up) { return cuda::supports_rows(gate) && cuda::supports_rows(up); }
Tensor rows_or_copy(const Tensor& x) { return cuda::supports_rows(x) ? x : x.contiguous(); }

// Whether the product, input of a trained weight, stays until the backward pass: where much memory is free, that saves writing it
// again. The numbers are the same.
bool keeps_product(const LowRankNode& layer, const Tensor& gate) {
  constexpr double kShare = 0.25;
  return gate.is_cuda() && layer.terms.empty() && layer.needs_input_values() &&
         device::tensors_take_less_than(kShare, gate.device());
}

// On a GPU one kernel computes the product again, if it was not kept, and both gradients, which are adjacent for the layers that
// produced gate and up.
LinearGradients gradients_on_gpu(const LowRankNode& layer, const Tensor& dy, const Tensor& gate, const Tensor& up,
                                 const cuda::GateUpdates& updates, const Tensor& kept, variable_list& result) {
  LinearGradients found;
  const auto needs = layer.needs(true);
  RoundedGradients rounded(dy, place_terms(layer.terms, dy.size(1)));
  found.x = base_gradient(dy, layer.weight, layer.float8);
  auto update = rounded.input_update(found.x);
  if (updates.defined() && update.p.defined() && update.p.size(1) != updates.gate_p.size(1)) update = {};
  if (!update.p.defined()) rounded.add_to_input(found.x);
  const int64_t width = gate.size(1);
  auto both = at::empty({gate.size(0), 2 * width}, gate.options());
  auto product = layer.needs_input_values() && !kept.defined() ? at::empty({gate.size(0), width}, gate.options()) : Tensor();
  result[0] = both.narrow(1, 0, width);
  result[1] = both.narrow(1, width, width);
  cuda::swiglu_backward(found.x, gate, up, result[0], result[1], product, update, updates);
  if (kept.defined()) product = kept;
  if (needs.weight) found.weight = matmul_tn(dy, product);
  if (needs.bias) found.bias = column_sums(dy);
  found.terms = rounded.of_factors(product);
  return found;
}

bool none_or_all_round(const std::vector<LowRankTerm>& terms) { return terms.empty() || all_round(terms); }

Tensor product_of(const Tensor& gate, const Tensor& up, const cuda::GateUpdates& updates) {
  return supports_halves_on_gpu(gate, up) ? cuda::swiglu_with_updates(gate, up, updates) : swiglu(gate, up);
}

// Inputs: gate, up, then the layer's tensors as LowRankNode lists them.
class SwigluLinear : public torch::autograd::Function<SwigluLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const LowRankNode& layer, bool unread,
                        const cuda::GateUpdates& updates) {
    auto terms = layer.terms;
    Tensor y, product;
    if (!unread || !terms.empty()) product = product_of(inputs[0], inputs[1], updates);
    if (!product.defined())
      y = at::empty({inputs[0].size(0), layer.weight.size(0)}, inputs[0].options());
    else if (unread)
      y = low_rank_unread(product, layer.weight, terms);
    else
      y = low_rank_forward(product, layer.weight, layer.bias, terms, layer.float8);
    if (product.defined() && !keeps_product(layer, inputs[0])) product.reset();
    layer.save(ctx, {inputs[0], inputs[1], updates.gate_p, updates.gate_b, updates.up_p, updates.up_b, product}, terms);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TensorList inputs;
    auto layer = LowRankNode::restore(ctx, inputs, 7);
    const cuda::GateUpdates updates{inputs[2], inputs[3], inputs[4], inputs[5]};
    bool needs_product = inputs[0].requires_grad() || inputs[1].requires_grad();
    const bool on_gpu = supports_halves_on_gpu(inputs[0], inputs[1]) && none_or_all_round(layer.terms);
    if (updates.defined() || (needs_product && on_gpu)) {
      variable_list result(2);
      auto found = gradients_on_gpu(layer, grads[0].contiguous(), inputs[0], inputs[1], updates, inputs[6], result);
      layer.append_gradients(found, result);
      result.resize(result.size() + 2);  // for `unread` and `updates`
      return result;
    }
    auto product = inputs[6];
    if (!product.defined() && layer.needs_input_values()) product = swiglu(inputs[0].detach(), inputs[1].detach());
    auto found =
        low_rank_backward(grads[0].contiguous(), product, layer.weight, layer.terms, layer.needs(needs_product), layer.float8);
    product.reset();
    variable_list result(2);
    if (needs_product) std::tie(result[0], result[1]) = swiglu_backward(found.x, inputs[0], inputs[1]);
    layer.append_gradients(found, result);
    result.resize(result.size() + 2);  // for `unread` and `updates`
    return result;
  }
};

// If this node cannot fuse them, gate and up get their updates now. They have not been read yet.
void add_updates(const Tensor& gate, const Tensor& up, const cuda::GateUpdates& updates) {
  cuda::low_rank_add_(gate.detach(), updates.gate_p, updates.gate_b, false);
  cuda::low_rank_add_(up.detach(), updates.up_p, updates.up_b, false);
}

Tensor as_one_node(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                   const std::vector<LoraWeights>& adapters, bool training, bool unread, cuda::GateUpdates updates,
                   const Float8Weight& float8) {
  bool dora = std::ranges::any_of(adapters, [](const auto& adapter) { return adapter.active && adapter.magnitude.defined(); });
  const bool is_node = !dora && fused_operators().swiglu;
  LowRankNode layer{weight, bias, is_node ? low_rank_terms(gate, adapters, training) : std::vector<LowRankTerm>(), float8};
  if (updates.defined() && (!is_node || !none_or_all_round(layer.terms))) {
    add_updates(gate, up, updates);
    updates = {};
  }
  if (!is_node) return lora_linear(swiglu(gate, up), weight, bias, adapters, training, float8);
  TensorList inputs{rows_or_copy(gate), rows_or_copy(up)};
  layer.append_inputs(inputs);
  return SwigluLinear::apply(at::TensorList(inputs), layer, unread, updates);
}

}  // namespace

Tensor swiglu_linear_plain(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                           const std::vector<LoraWeights>& adapters, bool training) {
  return lora_linear_plain(swiglu_plain(gate, up), weight, bias, adapters, training);
}

Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                     const std::vector<LoraWeights>& adapters, bool training, const cuda::GateUpdates& updates,
                     const Float8Weight& float8) {
  return as_one_node(gate, up, weight, bias, adapters, training, false, updates, float8);
}

Tensor swiglu_linear_unread(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                            const std::vector<LoraWeights>& adapters, bool training, const cuda::GateUpdates& updates,
                            const Float8Weight& float8) {
  return as_one_node(gate, up, weight, bias, adapters, training, true, updates, float8);
}

}  // namespace hone::ops
