// Decoders: from the tokens' texts back to readable text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::text::tokenizer {

using Tokens = std::vector<std::string>;

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(Tokens& tokens) const = 0;  // the result is joined; thread-safe
};

// Null for a JSON null.
Result<std::unique_ptr<Decoder>> make_decoder(const Json& json);

}  // namespace hone::text::tokenizer
