// RoPE scaling and the length of the context, by the rules of both dialects.
#pragma once
#include <filesystem>

#include "hone/cli/options.h"

namespace hone::cli {

// The changes of --rope_scaling and --max_model_len to config.json. ms-swift extends the context to max_model_len, LLaMA-Factory
// to cutoff_len in training and by a factor of 2 in inference.
Json rope_scaling_changes(const Options& options, const std::filesystem::path& folder);

}  // namespace hone::cli
