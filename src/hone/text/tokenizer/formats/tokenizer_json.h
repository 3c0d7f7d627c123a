// Reads tokenizer.json of the Hugging Face format.
#pragma once
#include <memory>
#include <string_view>

#include "hone/text/tokenizer/pipeline.h"

namespace hone::text::tokenizer {

// finish() has not been called yet: more tokens may be added.
Result<std::unique_ptr<Pipeline>> read_tokenizer_json(std::string_view text);

}  // namespace hone::text::tokenizer
