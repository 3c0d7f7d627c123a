// Quantized export: calibration texts, the method, and the output.
#pragma once
#include "hone/cli/commands/export.h"
#include "hone/cli/options.h"

namespace hone::cli {

// Whether this export quantizes: requested here, not recorded from the training run of a checkpoint.
bool quantizes(const Options& options);

// As in ms-swift, a number of bits to write needs a method. Throws UserError(usage).
void require_method(const Options& options);

// LLaMA-Factory's quantization_bit is about the loaded model; its export accepts no adapter on a quantized one.
void reject_quantized_base(const Options& options);
// Merges the adapters, quantizes and writes. Returns the folder.
std::filesystem::path export_quantized(const Options& options, const ExportOptions& job);

}  // namespace hone::cli
