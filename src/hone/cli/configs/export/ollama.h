// Ollama's Modelfile: a Go chat template derived from hone's own rendering.
#pragma once
#include <string>

#include "hone/data/encode/encoder.h"

namespace hone::cli {

struct ModelfileSettings {
  std::string from = ".";  // the folder with weights
  std::string system;      // "" leaves it to the template
  int64_t context = 0;     // num_ctx; 0 leaves it out
};

// Throws UserError(usage) for a template that cannot render a system prompt and a user message as text.
std::string ollama_modelfile(const data::Encoder& encoder, const text::Tokenizer& tokenizer, const ModelfileSettings& settings);

}  // namespace hone::cli
