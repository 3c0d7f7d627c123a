// Caches the ids of recent short words: one small table of fixed size per thread and tokenizer.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "hone/text/tokenizer.h"

namespace hone::text::tokenizer {

class WordCache {
 public:
  static constexpr size_t kMaxWord = 23, kMaxIds = 9;

  // The calling thread's cache for the tokenizer with this number.
  static WordCache& of_thread(uint64_t tokenizer_number);

  struct Key {
    uint64_t parts[3];
    bool operator==(const Key& other) const {
      return ((parts[0] ^ other.parts[0]) | (parts[1] ^ other.parts[1]) | (parts[2] ^ other.parts[2])) == 0;
    }
  };
  struct Entry {
    Key key;
    TokenId ids[kMaxIds];
    uint32_t count;
  };
  static_assert(sizeof(Entry) == 64, "one cache line");

  // `word` has 1 to kMaxWord bytes. The last byte of the key holds the length.
  static Key key_of(std::string_view word) {
    Key key{};
    std::memcpy(key.parts, word.data(), word.size());
    key.parts[2] |= static_cast<uint64_t>(word.size()) << 56;
    return key;
  }
  // The slot of a key: contains it if entry.key == key, otherwise may be overwritten.
  Entry& place(const Key& key) {
    uint64_t hash =
        (key.parts[0] ^ (key.parts[1] * 0x9E3779B97F4A7C15u) ^ (key.parts[2] * 0xC2B2AE3D27D4EB4Fu)) * 0xD6E8FEB86659FD93u;
    return entries_[hash >> (64 - kSizeLog2)];
  }
  static void store(Entry& entry, const Key& key, std::span<const TokenId> ids) {
    if (ids.size() > kMaxIds) return;
    entry.key = key;
    entry.count = static_cast<uint32_t>(ids.size());
    std::memcpy(entry.ids, ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kSizeLog2 = 15;
  explicit WordCache(uint64_t owner) : owner_(owner), entries_(size_t{1} << kSizeLog2) {}
  uint64_t owner_;
  std::vector<Entry> entries_;
};

}  // namespace hone::text::tokenizer
