#include "hone/ops/linear/lora_linear.h"

#include "hone/device/autograd.h"
#include "hone/ops/linear/dora_norm.h"
#include "hone/ops/linear/low_rank_node.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops {
namespace {

// Inputs: x, then the layer's tensors as LowRankNode lists them.
class LoraLinear : public torch::autograd::Function<LoraLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const LowRankNode& layer) {
    auto terms = layer.terms;
    auto rows = inputs[0].reshape({-1, inputs[0].size(-1)});
    auto y = low_rank_forward(rows, layer.weight, layer.bias, terms, layer.float8);
    bool keeps_x = layer.needs_input_values();
    layer.save(ctx, {keeps_x ? inputs[0] : Tensor()}, terms);
    ctx->saved_data["x_requires_grad"] = inputs[0].requires_grad();
    auto shape = inputs[0].sizes().vec();
    shape.back() = layer.weight.size(0);
    return y.dim() == inputs[0].dim() ? y : y.view(shape);  // callers may add to it, but not to a view
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TensorList inputs;
    auto layer = LowRankNode::restore(ctx, inputs, 1);
    auto dy = grads[0].reshape({-1, grads[0].size(-1)});
    auto x = inputs[0].defined() ? inputs[0].reshape({-1, inputs[0].size(-1)}) : Tensor();
    auto found = low_rank_backward(dy, x, layer.weight, layer.terms, layer.needs(ctx->saved_data["x_requires_grad"].toBool()),
                                   layer.float8);
    variable_list result;
    auto shape = grads[0].sizes().vec();
    shape.back() = layer.weight.size(1);
    result.push_back(found.x.defined() ? found.x.view(shape) : Tensor());
    layer.append_gradients(found, result);
    return result;
  }
};

// PEFT's DoRA: base and update are scaled by magnitude / |W + s B A|, whose norm is treated as a constant.
Tensor dora_update(const Tensor& x, const Tensor& base, const Tensor& weight, const Tensor& bias, const LoraWeights& adapter,
                   bool dropping) {
  auto ratio = (adapter.magnitude / updated_norm(weight, adapter, x.scalar_type())).to(x.scalar_type()).unsqueeze(0);
  auto direction = dropping ? at::linear(x, weight.to(x.scalar_type())) : bias.defined() ? base - bias : base;
  return (ratio - 1) * direction + ratio * at::linear(at::linear(x, adapter.a), adapter.b) * adapter.scale;
}

bool has_magnitude(const std::vector<LoraWeights>& adapters) {
  return std::ranges::any_of(adapters, [](const auto& adapter) { return adapter.active && adapter.magnitude.defined(); });
}

}  // namespace

Tensor updated_norm(const Tensor& weight, const LoraWeights& adapter, at::ScalarType dtype) {
  at::NoGradGuard no_grad;
  constexpr int64_t kRows = 1024;
  TensorList norms;
  for (int64_t row = 0; row < weight.size(0); row += kRows) {
    int64_t count = std::min(kRows, weight.size(0) - row);
    auto update = matmul_nn(adapter.b.narrow(0, row, count), adapter.a).to(dtype);
    norms.push_back((weight.narrow(0, row, count).to(dtype) + adapter.scale * update).norm(2, 1));
  }
  auto norm_o = at::cat(norms);
  return norm_o.masked_fill_(norm_o == 0, 1);
}

Tensor lora_linear_plain(const Tensor& x, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                         bool training) {
  return with_updates_plain(at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt), x, weight, bias, adapters,
                            training);
}

Tensor with_updates_plain(Tensor y, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const std::vector<LoraWeights>& adapters, bool training) {
  for (const auto& adapter : adapters) {
    if (!adapter.active) continue;
    bool dropping = training && adapter.dropout > 0;
    auto input = x.to(adapter.a.scalar_type());
    if (dropping) input = at::dropout(input, adapter.dropout, true);
    y = y + (adapter.magnitude.defined() ? dora_update(input, y, weight, bias, adapter, dropping)
                                         : at::linear(at::linear(input, adapter.a), adapter.b) * adapter.scale);
  }
  return y.to(x.scalar_type());
}

Tensor lora_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const std::vector<LoraWeights>& adapters,
                   bool training, const Float8Weight& float8) {
  if (has_magnitude(adapters)) return lora_linear_plain(x, weight, bias, adapters, training);
  LowRankNode layer{weight, bias, low_rank_terms(x, adapters, training), float8};
  if (!at::GradMode::is_enabled() && x.dim() == 2) return low_rank_forward(x, weight, bias, layer.terms, float8);
  TensorList inputs{x};
  layer.append_inputs(inputs);
  return LoraLinear::apply(at::TensorList(inputs), layer);
}

}  // namespace hone::ops
