// Export quantized: calibration texts, the method, and where it is written.
#pragma once
#include "hone/cli/commands/export.h"
#include "hone/cli/options.h"

namespace hone::cli {

// Whether this export is to be quantized: requested here, not in the training run that a checkpoint records.
bool quantizes(const Options& options);

// LLaMA-Factory's quantization_bit is of the model that is loaded; its export takes no adapter on top of one quantized.
void reject_quantized_base(const Options& options);
// Merges the adapters, quantizes and writes. Returns the folder.
std::filesystem::path export_quantized(const Options& options, const ExportOptions& job);

}  // namespace hone::cli
