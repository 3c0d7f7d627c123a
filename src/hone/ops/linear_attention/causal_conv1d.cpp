#include "hone/ops/linear_attention/causal_conv1d.h"

#include <optional>

#include "hone/device/autograd.h"
#include "hone/ops/cuda/delta_net.h"
#include "hone/ops/linear_attention/recurrent_step.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor taps_of(const Tensor& weight) {
  return weight.to(at::kFloat).view({weight.size(0), -1}).t().contiguous();
}  // [kernel, channels]

// `rows` of the positions that have one `back` before them in their segment; the others are zero.
Tensor within_segments(const Tensor& rows_tc, const Tensor& positions_t, int64_t back) {
  if (!positions_t.defined()) return rows_tc;
  return rows_tc * (positions_t.narrow(0, back, rows_tc.size(0)) >= back).unsqueeze(1);
}

std::optional<Tensor> known(const Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

class CausalConv1d : public torch::autograd::Function<CausalConv1d> {
 public:
  // Without `positions` all rows are one segment; autograd takes no undefined tensor for an argument.
  static Tensor forward(AutogradContext* ctx, const Tensor& x_tc, const Tensor& weight, const std::optional<Tensor>& positions) {
    const auto positions_t = positions.value_or(Tensor());
    ctx->save_for_backward({x_tc, weight, positions_t});
    const auto taps_kc = taps_of(weight), x32_tc = x_tc.to(at::kFloat);
    const int64_t last = taps_kc.size(0) - 1, rows = x_tc.size(0);
    auto y_tc = x32_tc * taps_kc[last];
    for (int64_t back = 1; back <= std::min(last, rows - 1); ++back)
      y_tc.narrow(0, back, rows - back)
          .addcmul_(within_segments(x32_tc.narrow(0, 0, rows - back), positions_t, back), taps_kc[last - back]);
    return y_tc.to(x_tc.scalar_type());
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x_tc = saved[0], &weight = saved[1], &positions_t = saved[2];
    const auto taps_kc = taps_of(weight), dy_tc = grads[0].to(at::kFloat), x32_tc = x_tc.to(at::kFloat);
    const int64_t last = taps_kc.size(0) - 1, rows = x_tc.size(0);
    const bool trains = weight.requires_grad();
    auto dx_tc = dy_tc * taps_kc[last];
    auto dtaps_kc = trains ? at::zeros_like(taps_kc) : Tensor();
    if (trains) dtaps_kc[last].copy_((dy_tc * x32_tc).sum(0));
    for (int64_t back = 1; back <= std::min(last, rows - 1); ++back) {
      const auto own_tc = within_segments(dy_tc.narrow(0, back, rows - back), positions_t, back);
      dx_tc.narrow(0, 0, rows - back).addcmul_(own_tc, taps_kc[last - back]);
      if (trains) dtaps_kc[last - back].copy_((own_tc * x32_tc.narrow(0, 0, rows - back)).sum(0));
    }
    auto dweight = trains ? dtaps_kc.t().reshape(weight.sizes()).to(weight.scalar_type()) : Tensor();
    return {dx_tc.to(x_tc.scalar_type()), dweight, Tensor()};
  }
};

class CudaConvSilu : public torch::autograd::Function<CudaConvSilu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x_tc, const Tensor& weight, const std::optional<Tensor>& positions) {
    const auto positions_t = positions.value_or(Tensor());
    ctx->save_for_backward({x_tc, weight, positions_t});
    return cuda::conv_silu(x_tc, weight, positions_t);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto found = cuda::conv_silu_backward(grads[0].contiguous(), saved[0], saved[1], saved[2], saved[1].requires_grad());
    return {found.x, found.weight, Tensor()};
  }
};

// The positions of one segment, after those that its slot holds.
Tensor continued_conv(const Tensor& x_tc, const Tensor& weight, const Tensor& inputs_ck) {
  const int64_t before = inputs_ck.size(1);
  const auto rows_tc = at::cat({inputs_ck.t(), x_tc});
  inputs_ck.copy_(rows_tc.narrow(0, rows_tc.size(0) - before, before).t());
  return CausalConv1d::apply(rows_tc, weight, std::optional<Tensor>()).narrow(0, before, x_tc.size(0));
}

}  // namespace

Tensor causal_conv1d_plain(const Tensor& x_tc, const Tensor& weight, const CuSeqlens& segments) {
  TensorList outputs;
  for (int64_t i = 0; i < segments.count(); ++i) {
    if (segments.length(i) == 0) continue;
    const auto x_ct = x_tc.narrow(0, segments.offsets[static_cast<size_t>(i)], segments.length(i)).to(at::kFloat).t();
    const auto padded = at::constant_pad_nd(x_ct.unsqueeze(0), {weight.size(2) - 1, 0});
    outputs.push_back(at::conv1d(padded, weight.to(at::kFloat), {}, 1, at::IntArrayRef({0}), 1, weight.size(0)).squeeze(0).t());
  }
  return at::cat(outputs).to(x_tc.scalar_type());
}

Tensor causal_conv1d(const Tensor& x_tc, const Tensor& weight, const LinearAttentionMetadata& metadata,
                     const StateSlots* states) {
  if (!states) return CausalConv1d::apply(x_tc, weight, known(metadata.positions_t));
  TensorList outputs;
  if (metadata.steps > 0)
    outputs.push_back(causal_conv1d_step(x_tc.narrow(0, 0, metadata.steps), weight, *states->state,
                                         states->slots_s.narrow(0, 0, metadata.steps)));
  for (int64_t i = 0; i < metadata.segments.count(); ++i) {
    if (metadata.segments.length(i) == 0) continue;
    const auto rows_tc =
        x_tc.narrow(0, metadata.steps + metadata.segments.offsets[static_cast<size_t>(i)], metadata.segments.length(i));
    outputs.push_back(
        continued_conv(rows_tc, weight, states->state->conv_sck[states->host_slots[static_cast<size_t>(metadata.steps + i)]]));
  }
  return outputs.size() == 1 ? outputs[0] : at::cat(outputs);
}

Tensor causal_conv1d_silu(const Tensor& x_tc, const Tensor& weight, const LinearAttentionMetadata& metadata,
                          const StateSlots* states) {
  if (!states && cuda::supports_conv_silu(x_tc, weight)) return CudaConvSilu::apply(x_tc, weight, known(metadata.positions_t));
  return at::silu(causal_conv1d(x_tc, weight, metadata, states));
}

}  // namespace hone::ops
