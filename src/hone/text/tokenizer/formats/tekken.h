// Reads tekken.json, the vocabulary file of Mistral's newer models.
#pragma once
#include <memory>
#include <string_view>

#include "hone/text/tokenizer/pipeline.h"

namespace hone::text::tokenizer {

// finish() has not been called yet.
Result<std::unique_ptr<Pipeline>> read_tekken(std::string_view text);

}  // namespace hone::text::tokenizer
