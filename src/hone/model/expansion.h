// LLaMA-Pro's block expansion: copies of some blocks that initially change nothing, because their residual outputs are zero.
#pragma once
#include <cstdint>

#include "hone/base/json.h"

namespace hone::model {

struct Decoder;

// Adds a new block after every `stride` old ones. Layers are renumbered and renamed.
void expand_blocks(Decoder& decoder, int64_t stride);
// The changes to config.json of the expanded model; of a multimodal one, to its language model's part.
Json expanded_config(const Json& config, int64_t stride);

}  // namespace hone::model
