#include "hone/ops/linear/float8_linear.h"

#include <cmath>

#include "hone/device/autograd.h"
#include "hone/ops/linear/float8_weight.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Float8Operand {
  Tensor values;  // in their original dtype
  Tensor scale;   // float32 scalar
  Float8Format format;
};

Float8Operand scaled_operand(const Tensor& values, const Float8Format& format) {
  constexpr double kLeast = 1e-12;  // torchao's epsilon against tensors of zeros
  return {values,
          at::full({}, format.largest, values.options().dtype(at::kFloat)) / values.abs().max().to(at::kFloat).clamp_min(kLeast),
          format};
}

Tensor multiplied(const Float8Operand& operand) { return operand.values.to(at::kFloat) * operand.scale; }

Tensor as_bytes(const Float8Operand& operand) {
  auto type = operand.format.fraction_bits == kE4m3.fraction_bits ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
  return multiplied(operand).clamp_(-operand.format.largest, operand.format.largest).to(type);
}

Tensor by_columns(const Tensor& matrix) { return matrix.t().contiguous().t(); }

// [m, k] [k, n] in the type of `like`.
Tensor float8_product(const Float8Operand& a, const Float8Operand& b, const Tensor& like) {
  if (!has_float8_products(like.device()))
    return at::mm(rounded_to(multiplied(a), a.format) / a.scale, rounded_to(multiplied(b), b.format) / b.scale)
        .to(like.scalar_type());
  auto type = like.scalar_type() == at::kFloat ? at::kFloat : at::kBFloat16;
  return at::_scaled_mm(as_bytes(a).contiguous(), by_columns(as_bytes(b)), a.scale.reciprocal(), b.scale.reciprocal(),
                        std::nullopt, std::nullopt, type)
      .to(like.scalar_type());
}

Float8Operand transposed(const Float8Operand& operand) { return {operand.values.t(), operand.scale, operand.format}; }

// Zero-pads rows to a multiple of 16, as the kernels require for the inner size.
Tensor with_whole_tiles(const Tensor& rows) {
  constexpr int64_t kTile = 16;
  const int64_t missing = (kTile - rows.size(0) % kTile) % kTile;
  return missing ? at::constant_pad_nd(rows, {0, 0, 0, missing}) : rows;
}

class Float8Linear : public torch::autograd::Function<Float8Linear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight) {
    ctx->save_for_backward({x, weight});
    auto rows = x.reshape({-1, x.size(-1)});
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return float8_product(scaled_operand(rows, kE4m3), transposed(scaled_operand(weight, kE4m3)), x).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    auto dy = scaled_operand(with_whole_tiles(grads[0].reshape({-1, grads[0].size(-1)})), kE5m2);
    Tensor dx, dweight;
    if (ctx->needs_input_grad(0))
      dx = float8_product(dy, scaled_operand(weight, kE4m3), x).narrow(0, 0, x.numel() / x.size(-1)).view(x.sizes());
    if (ctx->needs_input_grad(1))
      dweight = float8_product(transposed(dy), scaled_operand(with_whole_tiles(x.reshape({-1, x.size(-1)})), kE4m3), weight);
    return {dx, dweight};
  }
};

}  // namespace

Tensor rounded_to(const Tensor& values, const Float8Format& format) {
  auto held = values.to(at::kFloat).clamp(-format.largest, format.largest);
  auto exponents = held.abs().clamp_min(std::ldexp(1.0, format.least_exponent)).log2().floor();
  auto steps = at::exp2(exponents - format.fraction_bits);
  return (held / steps).round() * steps;
}

Tensor float8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto y = Float8Linear::apply(x, weight);
  return bias.defined() ? y + bias : y;
}

}  // namespace hone::ops
