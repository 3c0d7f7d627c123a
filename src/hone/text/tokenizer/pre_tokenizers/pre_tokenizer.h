// Pre-tokenizers: split the text into pieces that no token may cross.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/base/json.h"
#include "hone/text/tokenizer/pre_tokenizers/splitters.h"

namespace hone::text::tokenizer {

struct PreToken {
  std::string text;
  bool first = false;  // starts where the whole input starts
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(std::vector<PreToken>& pieces) const = 0;  // thread-safe
};

// Null for a JSON null.
Result<std::unique_ptr<PreTokenizer>> make_pre_tokenizer(const Json& json);

// The specialized splitter, if the JSON is exactly "split by a known pattern, then byte-level"; null otherwise.
Splitter byte_level_splitter(const Json& json);

}  // namespace hone::text::tokenizer
