// Checks options about a model against its folder before it is read.
#pragma once
#include <filesystem>
#include <optional>

#include "hone/cli/arguments/arg.h"
#include "hone/cli/options.h"
#include "hone/device/tensor.h"
#include "hone/model/config.h"

namespace hone::cli {

// Throws UserError(usage) when --model_type names another family than config.json does.
void check_model_type(const Options& options, const std::filesystem::path& folder);
// The same for another model and the option that names its family.
void check_model_type(const Arg<std::string>& type, const std::filesystem::path& folder);
// Throws UserError(out_of_memory) when the weights need more than --max_memory gives this device.
void check_memory_limit(const Options& options, const std::filesystem::path& folder, at::Device device);

// Throws UserError(usage) when the model's head returns scores of texts instead of tokens.
void require_generative_model(const std::filesystem::path& folder, const model::DecoderConfig& config);

// Its part of --max_memory, for weights.
std::optional<double> memory_limit(const Options& options, at::Device device);

}  // namespace hone::cli
