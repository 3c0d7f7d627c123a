// From options and a model's generation_config.json to how answers are sampled.
#pragma once
#include <filesystem>

#include "hone/cli/options.h"
#include "hone/engine/engine.h"

namespace hone::cli {

// What is not given comes from generation_config.json, then from transformers' defaults. End tokens are left empty.
engine::SamplingParams sampling_params(const Options& options, const std::filesystem::path& model_folder);

engine::EngineConfig engine_config(const Options& options);

// The end-of-text ids that generation_config.json (else config.json) lists.
std::vector<text::TokenId> end_tokens(const std::filesystem::path& model_folder);

}  // namespace hone::cli
