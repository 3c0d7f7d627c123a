#include "hone/text/tokenizer/models/model.h"

#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {

void Model::fail_without_unknown(std::string_view piece) {
  throw UserError(ExitCode::bad_data, fmt::format("the vocabulary cannot spell '{}' and has no unknown token", piece),
                  "set unk_token in tokenizer.json to a token of its vocabulary");
}

std::vector<TokenId> Model::byte_tokens() const {
  std::vector<TokenId> ids(256);
  for (unsigned byte = 0; byte < 256; ++byte) ids[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  return ids;
}

bool Model::append_byte_tokens(const std::vector<TokenId>& tokens, std::string_view text, std::vector<TokenId>& out) {
  if (tokens.empty()) return false;
  size_t before = out.size();
  for (char c : text) {
    TokenId id = tokens[static_cast<unsigned char>(c)];
    if (id < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(id);
  }
  return true;
}

namespace {

class WordLevel : public Model {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unk_token)
      : Model(std::move(vocabulary)), unk_id_(vocabulary_.find(unk_token)) {}

  void encode_pre_token(std::string_view piece, std::vector<TokenId>& out) const override {
    auto id = vocabulary_.find(piece);
    if (!id) id = unk_id_;
    if (!id) fail_without_unknown(piece);
    out.push_back(*id);
  }

 private:
  std::optional<TokenId> unk_id_;
};

// Greedy longest-prefix matching; a word with an unknown remainder is unknown as a whole.
class WordPiece : public Model {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options)
      : Model(std::move(vocabulary)), options_(std::move(options)), unk_id_(vocabulary_.find(options_.unk_token)) {
    for (size_t id = 0; id < vocabulary_.id_limit(); ++id)
      longest_ = std::max(longest_, vocabulary_.token(static_cast<TokenId>(id)).size());
  }

  void encode_pre_token(std::string_view piece, std::vector<TokenId>& out) const override {
    const size_t before = out.size();
    if (count_characters(piece) <= options_.max_input_chars_per_word && append_parts(piece, out)) return;
    out.resize(before);
    if (!unk_id_) fail_without_unknown(piece);
    out.push_back(*unk_id_);
  }

 private:
  bool append_parts(std::string_view piece, std::vector<TokenId>& out) const {
    std::string candidate;
    for (size_t start = 0; start < piece.size();) {
      candidate = start ? options_.continuing_subword_prefix : "";
      size_t prefix = candidate.size();
      candidate += piece.substr(start, longest_);
      std::optional<TokenId> id;
      while (candidate.size() > prefix && !(id = vocabulary_.find(candidate))) {
        do candidate.pop_back();  // one character
        while (candidate.size() > prefix && is_continuation_byte(piece[start + candidate.size() - prefix]));
      }
      if (!id) return false;
      out.push_back(*id);
      start += candidate.size() - prefix;
    }
    return true;
  }

  WordPieceOptions options_;
  std::optional<TokenId> unk_id_;
  size_t longest_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_word_piece(Vocabulary vocabulary, WordPieceOptions options) {
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(options));
}

std::unique_ptr<Model> make_word_level(Vocabulary vocabulary, std::string unk_token) {
  return std::make_unique<WordLevel>(std::move(vocabulary), unk_token);
}

}  // namespace hone::text::tokenizer
