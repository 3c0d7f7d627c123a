#include "hone/text/tokenizer/models/bpe.h"

#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

// Symbols of the current piece; kept per thread so that encoding allocates nothing once warm.
std::vector<TokenId>& scratch_symbols() {
  thread_local std::vector<TokenId> symbols;
  symbols.clear();
  return symbols;
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : Model(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  if (options_.unk_token) unk_id_ = vocabulary_.find(*options_.unk_token);
  if (options_.byte_fallback) fallback_ = byte_tokens();
  bool plain = !options_.continuing_subword_prefix && !options_.end_of_word_suffix;
  byte_level_ = plain;
  std::string token;
  for (size_t byte = 0; byte < 256; ++byte) {
    token.clear();
    append_utf8(token, byte_level_alphabet()[byte]);
    auto id = vocabulary_.find(token);
    byte_level_ = byte_level_ && id;
    byte_ids_[byte] = id.value_or(-1);
  }
}

void Bpe::encode_pre_token(std::string_view piece, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (auto id = vocabulary_.find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  auto& symbols = scratch_symbols();
  start_symbols(piece, symbols);
  merge_symbols(merges_, symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

// One symbol per character; unknown characters become bytes, an unknown token, or (without one) nothing. An unknown token is
// emitted only at the next known or unknown character, as in the reference.
void Bpe::start_symbols(std::string_view piece, std::vector<TokenId>& symbols) const {
  std::string spelled;
  bool pending_unknown = false;
  auto flush = [&] {
    if (pending_unknown) symbols.push_back(*unk_id_);
    pending_unknown = false;
  };
  for_each_char(piece, [&](uint32_t, size_t at, size_t length) {
    std::string_view text = piece.substr(at, length);
    bool prefix = at > 0 && options_.continuing_subword_prefix,
         suffix = at + length == piece.size() && options_.end_of_word_suffix;
    if (prefix || suffix) {
      spelled =
          (prefix ? *options_.continuing_subword_prefix : "") + std::string(text) + (suffix ? *options_.end_of_word_suffix : "");
      text = spelled;
    }
    if (auto id = vocabulary_.find(text)) {
      flush();
      symbols.push_back(*id);
    } else if (!append_byte_tokens(fallback_, text, symbols) && options_.unk_token) {
      if (!unk_id_) fail_without_unknown(text);
      if (!options_.fuse_unk) flush();
      pending_unknown = true;
    }
  });
  flush();
}

void Bpe::prepare_bytes() {
  complete_characters_.prepare(vocabulary_, merges_, byte_ids_);
  if (!options_.ignore_merges) return;
  raw_.reserve(vocabulary_.count(), vocabulary_.count() * 8);
  std::string bytes;
  for (size_t id = 0; id < vocabulary_.id_limit(); ++id) {
    bytes.clear();
    auto token = vocabulary_.token(static_cast<TokenId>(id));
    if (!token.empty() && append_from_byte_level(bytes, token)) (void)raw_.add(bytes, static_cast<int64_t>(id));
  }
}

void Bpe::encode_bytes(std::string_view bytes, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (auto id = raw_.find(bytes)) {
      out.push_back(*id);
      return;
    }
  }
  auto& symbols = scratch_symbols();
  if (!complete_characters_.start(bytes, byte_ids_, symbols))
    for (char c : bytes) symbols.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  merge_symbols(merges_, symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

}  // namespace hone::text::tokenizer
