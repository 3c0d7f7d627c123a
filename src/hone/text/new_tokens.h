// Tokens that a run adds to a model's vocabulary: a tokenizer with them, and files for other programs.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::text {

struct NewTokens {
  std::vector<std::string> special, plain;  // special ones can be left out of decoded text
  bool empty() const { return special.empty() && plain.empty(); }
};

// Tokenizer::load, then the new tokens after the highest id, plain before special; an existing token keeps its id.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& folder, const NewTokens& tokens);

// Writes tokenizer.json and tokenizer_config.json of `from` to `to`, with the tokens under the ids of `tokenizer`. Throws
// UserError(usage) for a folder without tokenizer.json.
void write_extended_files(const std::filesystem::path& from, const std::filesystem::path& to, const NewTokens& tokens,
                          const Tokenizer& tokenizer);

}  // namespace hone::text
