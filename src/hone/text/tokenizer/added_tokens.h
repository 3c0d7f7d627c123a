// Tokens beyond the model's vocabulary, searched in the text before anything else.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hone/text/tokenizer.h"
#include "hone/text/tokenizer/models/trie.h"
#include "hone/text/tokenizer/models/vocabulary.h"
#include "hone/text/tokenizer/normalizer.h"

namespace hone::text::tokenizer {

struct AddedToken {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

// A part of a text: an added token, or (id -1) ordinary text between two.
struct AddedTokenSpan {
  size_t begin, end;
  TokenId id;
};

class AddedTokens {
 public:
  // A token of the vocabulary keeps its id; a new one takes the next free id, as in the reference, whatever the file says.
  void add(AddedToken token, const Vocabulary& vocabulary);
  // Call once after the last add.
  void finish(const Normalizer* normalizer);

  // Tokens that are looked for in the text as given, and those looked for after normalization.
  void find_raw(std::string_view text, bool guard_special, std::vector<AddedTokenSpan>& out) const {
    find(raw_, text, guard_special, out);
  }
  void find_normalized(std::string_view text, bool guard_special, std::vector<AddedTokenSpan>& out) const {
    find(normalized_, text, guard_special, out);
  }
  bool any_normalized() const { return normalized_.any; }

  std::optional<TokenId> find_id(std::string_view content) const;
  const AddedToken* find_token(TokenId id) const;
  // The text for the decoder; null if `id` is not an added token.
  const std::string* decoded(TokenId id) const;
  bool is_special_text(const std::string& content) const { return special_.contains(content); }
  TokenId id_limit() const { return id_limit_; }

 private:
  struct Matcher {
    Trie trie;
    std::array<bool, 256> first{};
    bool any = false;
    size_t next_candidate(std::string_view text, size_t from) const;
  };
  void find(const Matcher& matcher, std::string_view text, bool guard_special, std::vector<AddedTokenSpan>& out) const;
  static Matcher make_matcher(std::vector<std::pair<std::string_view, TokenId>> words);

  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<TokenId, AddedToken> tokens_;
  std::unordered_map<TokenId, std::string> normalized_content_;
  std::unordered_set<std::string> special_;
  Matcher raw_, normalized_;
  TokenId id_limit_ = 0;
};

}  // namespace hone::text::tokenizer
