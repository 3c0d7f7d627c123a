#include "hone/ops/swiglu_linear.h"

#include "hone/device/autograd.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/low_rank_node.h"
#include "hone/ops/swiglu.h"

namespace hone::ops {
namespace {

// Inputs: gate, up, then the layer's tensors as LowRankNode lists them.
class SwigluLinear : public torch::autograd::Function<SwigluLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const LowRankNode& layer) {
    auto terms = layer.terms;
    auto y = low_rank_forward(swiglu(inputs[0], inputs[1]), layer.weight, layer.bias, terms);
    layer.save(ctx, {inputs[0], inputs[1]}, terms);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TensorList inputs;
    auto layer = LowRankNode::restore(ctx, inputs, 2);
    bool needs_product = inputs[0].requires_grad() || inputs[1].requires_grad();
    auto product = layer.needs_input_values() ? swiglu(inputs[0].detach(), inputs[1].detach()) : Tensor();
    auto found = low_rank_backward(grads[0].contiguous(), product, layer.weight, layer.terms, layer.needs(needs_product));
    product.reset();
    variable_list result(2);
    if (needs_product) std::tie(result[0], result[1]) = swiglu_backward(found.x, inputs[0], inputs[1]);
    layer.append_gradients(found, result);
    return result;
  }
};

}  // namespace

Tensor swiglu_linear_plain(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                           const std::vector<LoraWeights>& adapters, bool training) {
  return lora_linear_plain(swiglu_plain(gate, up), weight, bias, adapters, training);
}

Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                     bool training) {
  bool dora = std::ranges::any_of(adapters, [](const auto& adapter) { return adapter.active && adapter.magnitude.defined(); });
  if (dora || !fused_operators().swiglu) return lora_linear(swiglu(gate, up), weight, bias, adapters, training);
  LowRankNode layer{weight, bias, low_rank_terms(gate, adapters, training)};
  TensorList inputs{gate.contiguous(), up.contiguous()};
  layer.append_inputs(inputs);
  return SwigluLinear::apply(at::TensorList(inputs), layer);
}

}  // namespace hone::ops
