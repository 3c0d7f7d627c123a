// Byte pair encoding: pairs of symbols are merged in the order of their rank until no pair is left.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "hone/text/tokenizer/models/model.h"

namespace hone::text::tokenizer {

// The result of merging a pair of symbols. An absent pair has the highest rank.
struct Merge {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t rank = kNone;
  TokenId result = -1;
};

// (left, right) -> Merge, open addressing in one array.
class MergeTable {
 public:
  void reserve(size_t merges);
  void add(TokenId left, TokenId right, Merge merge);  // a repeated pair takes the later rank
  Merge find(TokenId left, TokenId right) const {
    if (slots_.empty()) return {};
    uint64_t key = key_of(left, right);
    for (size_t i = hash_of(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }
  // Calls visit(left, right, merge) for every pair, in no order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (auto& slot : slots_)
      if (slot.key != kEmpty)
        visit(static_cast<TokenId>(slot.key >> 32), static_cast<TokenId>(slot.key & UINT32_MAX), slot.merge);
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static size_t hash_of(uint64_t key) { return (key * 0x9E3779B97F4A7C15u) >> 32; }

  std::vector<Slot> slots_;
  size_t mask_ = 0, count_ = 0;
};

// Merges `symbols` in place by the table: the lowest rank first, the leftmost of equals first.
void merge_symbols(const MergeTable& table, std::vector<TokenId>& symbols);

// Multi-byte characters that a byte-level vocabulary contains as single tokens. A word may start from complete characters instead
// of bytes if no merge could cross one of its character boundaries before both sides are complete: the result is the same, with a
// third of the work.
class WholeCharacters {
 public:
  // Stays empty if ranks do not grow with the tokens they build, because then the order of merges could differ.
  void prepare(const Vocabulary& vocabulary, const MergeTable& merges, const std::array<TokenId, 256>& byte_ids);
  // Appends the starting symbols of a word (valid UTF-8), or nothing and false when it must start from bytes.
  bool start(std::string_view word, const std::array<TokenId, 256>& byte_ids, std::vector<TokenId>& symbols) const;

 private:
  void find_risks(const Vocabulary& vocabulary, const MergeTable& merges);
  std::vector<TokenId> tokens_;  // by code point below U+10000; -1: not whole
  std::vector<bool> risks_;      // by the byte before a boundary and the two after it
};

struct BpeOptions {
  std::optional<std::string> unk_token, continuing_subword_prefix, end_of_word_suffix;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

class Bpe : public Model {
 public:
  Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options);
  void encode_pre_token(std::string_view piece, std::vector<TokenId>& out) const override;

  // True if every byte has its byte-level token: then encode_bytes equals encode_pre_token of the byte-level spelling.
  bool is_byte_level() const { return byte_level_; }
  // Builds the tables of encode_bytes; call once, before sharing.
  void prepare_bytes();
  void encode_bytes(std::string_view bytes, std::vector<TokenId>& out) const;

 private:
  void start_symbols(std::string_view piece, std::vector<TokenId>& symbols) const;

  MergeTable merges_;
  BpeOptions options_;
  std::optional<TokenId> unk_id_;
  std::vector<TokenId> fallback_;        // see byte_tokens(); empty without byte_fallback
  std::array<TokenId, 256> byte_ids_{};  // ids of the byte-level alphabet
  bool byte_level_ = false;
  Vocabulary raw_;  // tokens as bytes, for ignore_merges
  WholeCharacters complete_characters_;
};

}  // namespace hone::text::tokenizer
