// A tokenizer of single bytes, for tests that need text without a model folder.
#pragma once
#include <fmt/format.h>

#include <memory>

#include "hone/base/json.h"
#include "hone/text/tokenizer.h"
#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"

namespace hone::engine {

// Ids 0 to 255 are the bytes; then "he", "ab", "\":" and the special <end>.
inline std::shared_ptr<const text::Tokenizer> byte_tokenizer() {
  Json vocabulary = Json::object(), merges = Json::array();
  auto letter = [](int byte) {
    std::string out;
    char c = static_cast<char>(byte);
    text::tokenizer::append_byte_level(out, {&c, 1});
    return out;
  };
  for (int byte = 0; byte < 256; ++byte) vocabulary[letter(byte)] = byte;
  int next = 256;
  for (std::string_view pair : {"he", "ab", "\":"}) {
    vocabulary[letter(pair[0]) + letter(pair[1])] = next++;
    merges.push_back(letter(pair[0]) + " " + letter(pair[1]));
  }
  Json json{
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", next},
         {"content", "<end>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", vocabulary},
        {"merges", merges}}}};
  return text::tokenizer_from_json(json.dump()).or_throw(ExitCode::failure, "test tokenizer");
}
constexpr text::TokenId kEnd = 259;

}  // namespace hone::engine
