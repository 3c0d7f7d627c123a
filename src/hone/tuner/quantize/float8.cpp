#include "hone/tuner/quantize/float8.h"

#include "hone/model/decoder.h"

namespace hone::tuner {

void apply_float8(model::CausalLM& model) {
  constexpr int64_t kTile = 16;
  bool first = true;
  for (auto& block : model.decoder().blocks)
    for (auto* linear : block.module().linears()) {
      linear->float8 = !first && linear->weight.size(0) % kTile == 0 && linear->weight.size(1) % kTile == 0;
      first = false;
    }
}

}  // namespace hone::tuner
