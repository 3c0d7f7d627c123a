// The bytes of each token: a token may be part of a character, which text cannot represent.
#pragma once
#include <string>

#include "hone/text/tokenizer.h"

namespace hone::text {

class TokenBytes {
 public:
  explicit TokenBytes(const Tokenizer& tokenizer);  // which must outlive it
  // For a special token, its name.
  std::string of(TokenId id) const;

 private:
  const Tokenizer& tokenizer_;
  bool pieces_;  // SentencePiece's writing, not the byte-level alphabet
};

}  // namespace hone::text
