// Embeddings out of a decoder: its hidden states, pooled and normalised.
#pragma once
#include "hone/serve/chat/served_model.h"

namespace hone::model {
class CausalLM;
}

namespace hone::serve {

Embed make_embed(model::CausalLM& model);

}  // namespace hone::serve
