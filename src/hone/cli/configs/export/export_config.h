// From options to what export writes: the merged model, with Ollama's Modelfile and files of a larger vocabulary where they
// belong.
#pragma once
#include "hone/cli/commands/export.h"
#include "hone/cli/options.h"

namespace hone::cli {

ExportOptions export_options(const Options& options, bool merge_lora);

}  // namespace hone::cli
