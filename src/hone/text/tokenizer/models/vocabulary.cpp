#include "hone/text/tokenizer/models/vocabulary.h"

#include <bit>

namespace hone::text::tokenizer {
namespace {

inline uint64_t mix(uint64_t a, uint64_t b) {
  auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t load(const char* at, size_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kFirst = 0x9E3779B97F4A7C15u, kSecond = 0xD6E8FEB86659FD93u;
  uint64_t hash = bytes.size() * kFirst;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left > 8; at += 8, left -= 8) hash = mix(hash ^ load(at, 8), kFirst);
  return mix(hash ^ load(at, left), kSecond);
}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  arena_.reserve(bytes);
  spans_.reserve(tokens);
  grow(std::bit_ceil(tokens * 3 / 2 + 16));
}

Result<bool> Vocabulary::add(std::string_view token, int64_t id) {
  if (id < 0 || id > kMaxId) return error("token '{}' has id {}; ids go from 0 to {}", token, id, kMaxId);
  auto index = static_cast<size_t>(id);
  if (index < spans_.size() && spans_[index].used) {
    if (this->token(static_cast<TokenId>(id)) == token) return true;
    return error("id {} is given to both '{}' and '{}'", id, this->token(static_cast<TokenId>(id)), token);
  }
  if (arena_.size() + token.size() > UINT32_MAX) return error("vocabulary larger than 4 GB");
  if (index >= spans_.size()) spans_.resize(index + 1);
  spans_[index] = {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(token.size()), true};
  arena_.append(token);
  if ((count_ + 1) * 3 / 2 > slots_.size()) grow(std::max<size_t>(64, slots_.size() * 2));
  uint64_t hash = hash_bytes(token);
  auto& slot = slots_[slot_of(token, hash)];
  if (slot.id < 0) ++count_;
  slot = {static_cast<uint32_t>(hash >> 32), static_cast<TokenId>(id)};
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  auto& slot = slots_[slot_of(token, hash_bytes(token))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

std::string_view Vocabulary::token(TokenId id) const {
  if (!contains(id)) return {};
  auto& span = spans_[static_cast<size_t>(id)];
  return {arena_.data() + span.offset, span.length};
}

// The slot that holds `token`, or the empty one where it belongs.
size_t Vocabulary::slot_of(std::string_view token, uint64_t hash) const {
  size_t mask = slots_.size() - 1;
  auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    auto& slot = slots_[i];
    if (slot.id < 0 || (slot.tag == tag && this->token(slot.id) == token)) return i;
  }
}

void Vocabulary::grow(size_t slots) {
  if (slots <= slots_.size()) return;
  auto old = std::move(slots_);
  slots_.assign(slots, Slot{});
  for (auto& slot : old) {
    if (slot.id < 0) continue;
    auto text = token(slot.id);
    slots_[slot_of(text, hash_bytes(text))] = slot;
  }
}

}  // namespace hone::text::tokenizer
