#include "hone/model/inference/weight_quantization.h"

#include <algorithm>
#include <iterator>

#include "hone/base/error.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/tensor_parallel_decoder.h"

namespace hone::model {
namespace {

void check_without_dora(const Linear& linear) {
  if (std::ranges::any_of(linear.adapters, [](const auto& adapter) { return adapter.magnitude.defined(); }))
    throw UserError(ExitCode::usage, fmt::format("{} has a DoRA adapter, which needs the weights before rounding", linear.name),
                    "merge the adapter into the model (`merge_lora` true), or leave `quant_bits` out");
}

// The linear layers of a decoder's blocks, without the head.
std::vector<Linear*> block_linears(Decoder& decoder) {
  std::vector<Linear*> list;
  for (auto& block : decoder.blocks) std::ranges::copy(block.module().linears(), std::back_inserter(list));
  return list;
}

}  // namespace

void apply_quantization(CausalLM& model, int bits) {
  if (!model.device().is_cpu())
    throw UserError(ExitCode::usage, fmt::format("weights of {} bits on {}", bits, model.device().str()),
                    "rounded weights are for the CPU; leave `quant_bits` out here");
  const auto decoders = computing_decoders(model);
  for (auto* decoder : decoders) {
    for (const auto* linear : block_linears(*decoder)) check_without_dora(*linear);
    check_without_dora(decoder->head);
  }
  auto round = [&](Linear& linear, bool keep) {
    linear.quantized = ops::quantize_weight(linear.weight, bits);
    if (!keep) linear.weight = linear.weight.to(at::kMeta);
  };
  const bool head_is_embedding = !is_tensor_parallel(model) && model.config().tie_word_embeddings;
  for (auto* decoder : decoders) {
    for (auto* linear : block_linears(*decoder)) round(*linear, false);
    for (auto& block : decoder->blocks)
      if (block.moe) block.moe->gate_up.quantize(bits), block.moe->down.quantize(bits);
    round(decoder->head, head_is_embedding);
  }
}

void apply_float8(CausalLM& model) {
  bool rounded = false;
  auto round = [&](Linear& layer) {
    if (layer.is_tuned() || layer.quantized_base || !ops::supports_float8(layer.weight, layer.weight.size(0))) return;
    layer.float8_weight = ops::float8_weight_forward(layer.weight);
    rounded = true;
  };
  // Layers that no product joins, such as those of gated attention, are computed separately.
  auto round_joined = [&](FusedProjection& joined, std::initializer_list<Linear*> layers) {
    if (joined.round_for_inference())
      rounded = true;
    else if (!joined.weight().defined())
      for (auto* layer : layers) round(*layer);
  };
  for (auto* decoder : computing_decoders(model))
    for (auto& block : decoder->blocks) {
      if (block.delta_net) {
        for (auto& layer : block.delta_net->projections) round(layer);
        round(block.delta_net->out);
      } else {
        auto& a = block.attention;
        round_joined(a.qkv, {&a.q, &a.k, &a.v});
        round(a.o);
      }
      if (!block.mlp) continue;
      round_joined(block.mlp->gate_up, {&block.mlp->gate, &block.mlp->up});
      round(block.mlp->down);
    }
  if (!rounded)
    throw UserError(ExitCode::usage,
                    fmt::format("products of 8-bit floats on {} in {}", model.device().str(), c10::toString(model.dtype())),
                    "they need bfloat16 on an NVIDIA GPU of compute capability 8.9 or newer; leave `vllm_quantization` out here");
}

}  // namespace hone::model
