// Tokens and their ids: one text arena, one hash table, ids by index.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"
#include "hone/text/tokenizer.h"

namespace hone::text::tokenizer {

// A fast, well-mixing hash of short byte strings.
uint64_t hash_bytes(std::string_view bytes);

class Vocabulary {
 public:
  // Larger ids are treated as corruption: they would make tables by id huge.
  static constexpr int64_t kMaxId = 1 << 22;

  void reserve(size_t tokens, size_t bytes);
  // Fails for an id that is out of range or already has another token. A repeated token takes the new id.
  Result<bool> add(std::string_view token, int64_t id);
  std::optional<TokenId> find(std::string_view token) const;
  bool contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < spans_.size() && spans_[static_cast<size_t>(id)].used;
  }
  std::string_view token(TokenId id) const;          // "" for an unknown id
  size_t id_limit() const { return spans_.size(); }  // one more than the highest id
  size_t count() const { return count_; }

 private:
  struct Slot {
    uint32_t tag = 0;
    TokenId id = -1;
  };
  struct TextSpan {
    uint32_t offset = 0, length = 0;
    bool used = false;
  };
  size_t slot_of(std::string_view token, uint64_t hash) const;
  void grow(size_t slots);

  std::string arena_;
  std::vector<TextSpan> spans_;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace hone::text::tokenizer
