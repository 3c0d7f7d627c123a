// From options to the model that a command loads: where from, where to, in which type, and what is changed about it.
#pragma once
#include <filesystem>

#include "hone/cli/options.h"
#include "hone/model/causal_lm.h"
#include "hone/text/new_tokens.h"

namespace hone::cli {

// --use_cpu, --devices, or what --device_map names for the full model.
at::Device device_of(const Options& options);

// What --rope_scaling and --max_model_len change about config.json. ms-swift's and LLaMA-Factory's rules: ms-swift stretches the
// context to max_model_len, LLaMA-Factory to cutoff_len when it trains and by 2 when it answers.
Json config_changes(const Options& options, const std::filesystem::path& folder);

// Type, device and changes; --threads counts from here on. Rows for new tokens are known once there is a tokenizer: room_for adds
// them.
model::LoadOptions load_options(const Options& options, const std::filesystem::path& folder);
text::NewTokens new_tokens(const Options& options);
model::EmbeddingResize room_for(const text::Tokenizer& tokenizer, const Options& options);
// All of it: what answering commands load.
std::unique_ptr<model::CausalLM> load_model(const Options& options, const std::filesystem::path& folder,
                                            const text::Tokenizer& tokenizer);

}  // namespace hone::cli
