#include "hone/model/inference/thin_block.h"

#include "hone/model/forward_context.h"
#include "hone/ops/cuda/thin_linear.h"

namespace hone::model {
namespace {

bool is_plain(const Linear& layer) { return !layer.is_tuned() && !layer.quantized && !layer.quantized_base && !layer.float8; }

bool is_plain(const Attention& a) {
  return a.qkv.weight().defined() && a.qkv.is_current_for({&a.q, &a.k, &a.v}) && is_plain(a.o);
}
bool is_plain(const Mlp& mlp) {
  return mlp.activation == Activation::silu && mlp.gate_up.weight().defined() &&
         mlp.gate_up.is_current_for({&mlp.gate, &mlp.up}) && is_plain(mlp.down);
}

}  // namespace

bool is_thin(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  return context.cache && !context.region && !block.moe && block.mlp && is_plain(block.attention) &&
         ops::cuda::supports_thin(x_th, block.attention.qkv.weight()) && !block.post_attention_norm && !block.post_mlp_norm &&
         block.residual_scale == 1 && block.input_norm.is_plain_rms() && block.pre_mlp_norm.is_plain_rms() &&
         is_plain(*block.mlp);
}

Tensor thin_block_forward(const Block& block, const Tensor& x_th, const ForwardContext& context) {
  using ops::cuda::thin_linear;
  const auto& a = block.attention;
  const auto& mlp = *block.mlp;
  auto normed = [](const FusedProjection& layers, const Tensor& x, const Norm& norm, bool gated) {
    return thin_linear(x, layers.weight(), layers.bias(), {.norm = norm.weight, .eps = norm.eps, .gated = gated});
  };
  auto added = [](const Linear& layer, const Tensor& x, const Tensor& to) {
    return thin_linear(x, layer.weight, layer.bias, {.added = to});
  };
  auto qkv = normed(a.qkv, x_th, block.input_norm, false);
  auto seen =
      context.cache->attend(block.layer, qkv, a.norms(), block.uses_local_rope ? context.local_rope : context.rope, block.shape);
  auto sum_th = added(a.o, seen, x_th);
  return added(mlp.down, normed(mlp.gate_up, sum_th, block.pre_mlp_norm, true), sum_th);
}

}  // namespace hone::model
