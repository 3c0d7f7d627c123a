// Embeddings from a decoder: its hidden states, pooled to one vector per text.
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
// The settings of a sentence-transformers folder (modules.json and its files); for other folders: the last state, normalized.
// Throws UserError(bad_checkpoint) for unsupported modules.
PoolingConfig read_embedding_style(const std::filesystem::path& folder);

Embed make_embed(model::CausalLM& model);

}  // namespace hone::serve
