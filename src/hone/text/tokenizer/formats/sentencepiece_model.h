// Reads tokenizer.model, the protobuf file of SentencePiece, for folders that have no tokenizer.json.
#pragma once
#include <memory>
#include <string_view>

#include "hone/text/tokenizer/pipeline.h"

namespace hone::text::tokenizer {

// BPE models give the ids of transformers' LlamaTokenizer, Unigram models those of SentencePiece itself. `legacy`: a text after a
// special token gets the leading space too. finish() has not been called yet.
Result<std::unique_ptr<Pipeline>> read_sentencepiece(std::string_view bytes, bool legacy);

}  // namespace hone::text::tokenizer
