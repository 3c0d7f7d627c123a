// Normalizers: text transformations before splitting.
#pragma once
#include <memory>
#include <string>

#include "hone/base/json.h"

namespace hone::text::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(std::string& text) const = 0;  // valid UTF-8 in and out; thread-safe
  // True if apply would certainly leave `text` unchanged, so that no copy is needed.
  virtual bool leaves(std::string_view text) const { return false; }
};

// Null for a JSON null.
Result<std::unique_ptr<Normalizer>> make_normalizer(const Json& json);

// SentencePiece's compiled character map: a double-array trie and the replacement texts.
enum class CharsmapMatching {
  grapheme,  // per grapheme cluster, as the reference applies it for tokenizer.json
  longest,   // the longest key at each place, as SentencePiece itself does
};
Result<std::unique_ptr<Normalizer>> make_precompiled(std::string_view charsmap, CharsmapMatching matching);

}  // namespace hone::text::tokenizer
