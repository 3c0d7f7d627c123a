// From options to the model as requests see it: its names, its template, default parameters.
#pragma once
#include "hone/cli/options.h"
#include "hone/engine/engine.h"
#include "hone/model/causal_lm.h"
#include "hone/serve/chat/served_model.h"

namespace hone::cli {

// For prompts from untrusted clients.
data::EncodeConfig prompt_config(const Options& options);

serve::ServedModel served_model(const Options& options, const std::filesystem::path& folder,
                                std::shared_ptr<const text::Tokenizer> tokenizer, std::shared_ptr<const data::Encoder> encoder,
                                const engine::Engine& engine, model::CausalLM& model);

}  // namespace hone::cli
