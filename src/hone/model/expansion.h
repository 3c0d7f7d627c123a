// LLaMA-Pro's expansion: copies of some blocks that change nothing yet, because what they add to the stream is zero.
#pragma once
#include <cstdint>

#include "hone/base/json.h"

namespace hone::model {

struct Decoder;

// A new block after every `stride` old ones. Layers are numbered and named again.
void expand_blocks(Decoder& decoder, int64_t stride);
// What config.json says differently of the expanded model.
Json expanded_config(const Json& config, int64_t stride);

}  // namespace hone::model
