// From options to the output of export: the merged model, with
// Ollama's Modelfile and files of an extended vocabulary if needed.
#pragma once
#include "hone/cli/commands/export.h"
#include "hone/cli/options.h"

namespace hone::cli {

ExportOptions export_options(const Options& options, bool merge_lora);

}  // namespace hone::cli
