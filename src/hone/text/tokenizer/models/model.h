// The four tokenizer models: from a piece of text to ids.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/text/tokenizer/models/vocabulary.h"

namespace hone::text::tokenizer {

class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;

  // Appends the ids of one pre-tokenized piece (valid UTF-8, not empty). Thread-safe.
  virtual void encode_pre_token(std::string_view piece, std::vector<TokenId>& out) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  // Throws UserError if the text needs an unknown token and the file defines none.
  [[noreturn]] static void fail_without_unknown(std::string_view piece);
  // Ids of "<0x00>" … "<0xFF>", -1 where the vocabulary has none.
  std::vector<TokenId> byte_tokens() const;
  // Appends the tokens of the bytes of `text`; false (and nothing appended) when one is missing or `tokens` is empty.
  static bool append_byte_tokens(const std::vector<TokenId>& tokens, std::string_view text, std::vector<TokenId>& out);

  Vocabulary vocabulary_;
};

struct WordPieceOptions {
  std::string unk_token = "[UNK]", continuing_subword_prefix = "##";
  size_t max_input_chars_per_word = 100;
};
std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, WordPieceOptions options);
std::unique_ptr<Model> make_word_level(Vocabulary vocabulary, std::string unk_token);

struct UnigramOptions {
  std::optional<TokenId> unk_id;
  bool byte_fallback = false;
};
std::unique_ptr<Model> make_unigram(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

}  // namespace hone::text::tokenizer
