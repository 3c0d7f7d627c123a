#include "hone/model/inference/weight_quantization.h"

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::model {

void apply_quantization(CausalLM& model, int bits) {
  if (!model.device().is_cpu())
    throw UserError(ExitCode::usage, fmt::format("weights of {} bits on {}", bits, model.device().str()),
                    "rounded weights are for the CPU; leave `quant_bits` out here");
  auto round = [&](Linear& linear, bool keep) {
    linear.quantized = ops::quantize_weight(linear.weight, bits);
    if (!keep) linear.weight = linear.weight.to(at::kMeta);
  };
  const bool head_is_embedding = !model.is_sliced() && model.config().tie_word_embeddings;
  for (auto* decoder : model.computing_decoders()) {
    for (auto& block : decoder->blocks) {
      for (auto* linear : block.module().linears()) round(*linear, false);
      if (block.mixture) block.mixture->gate_up.quantize(bits), block.mixture->down.quantize(bits);
    }
    round(decoder->head, head_is_embedding);
  }
}

}  // namespace hone::model
