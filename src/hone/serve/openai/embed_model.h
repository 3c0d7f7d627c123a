// Embeddings out of a decoder: its hidden states, pooled to one vector for each text.
#pragma once
#include <filesystem>
#include <optional>

#include "hone/serve/chat/served_model.h"

namespace hone::model {
class CausalLM;
}

namespace hone::serve {

// "last", "cls", "mean", "max", "weightedmean" or "mean_sqrt_len", as sentence-transformers calls them.
std::optional<Pooling> pooling_named(std::string_view name);
// What a sentence-transformers folder says of itself (modules.json and what it names); other folders: the last state, of
// length 1. Throws UserError(bad_checkpoint) when it needs something unknown here.
PoolingConfig read_embedding_style(const std::filesystem::path& folder);

Embed make_embed(model::CausalLM& model);

}  // namespace hone::serve
