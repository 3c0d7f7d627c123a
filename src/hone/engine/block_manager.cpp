#include "hone/engine/block_manager.h"

#include <algorithm>
#include <random>

#include "hone/base/error.h"

namespace hone::engine {
namespace {

HashKey random_key() {
  std::random_device device;
  auto word = [&] { return static_cast<uint64_t>(device()) << 32 | device(); };
  return {word(), word()};
}

}  // namespace

BlockManager::BlockManager(int64_t blocks, int64_t block_size, bool prefix_cache)
    : total_(blocks), block_size_(block_size), prefix_cache_(prefix_cache), key_(random_key()) {}

BlockId BlockManager::allocate() {
  HONE_CHECK(free_blocks() > 0, "no free block is left of {}", total_);
  BlockId id;
  if (!empty_.empty()) {
    id = empty_.front();
  } else if (static_cast<int64_t>(blocks_.size()) < total_) {
    id = static_cast<BlockId>(blocks_.size());
    blocks_.emplace_back().position = empty_.insert(empty_.end(), id);
  } else {
    id = evictable_.front();
  }
  take(id);
  unpublish(blocks_[static_cast<size_t>(id)]);
  return id;
}

// Moves a block from free to used.
void BlockManager::take(BlockId id) {
  auto& block = blocks_[static_cast<size_t>(id)];
  if (block.references++ > 0) return;
  (block.hash ? evictable_ : empty_).erase(block.position);
  ++used_;
}

void BlockManager::share(std::span<const BlockId> blocks) {
  for (auto id : blocks) take(id);
}

void BlockManager::release(std::vector<BlockId>& held) {
  // From the end: the start of a prompt is the most likely to be reused, so it is evicted last.
  for (auto id = held.rbegin(); id != held.rend(); ++id) {
    auto& block = blocks_[static_cast<size_t>(*id)];
    HONE_CHECK(block.references > 0, "block {} is released twice", *id);
    if (--block.references > 0) continue;
    auto& list = block.hash ? evictable_ : empty_;
    block.position = list.insert(list.end(), *id);
    --used_;
  }
  held.clear();
}

void BlockManager::unpublish(Block& block) {
  if (!block.hash) return;
  published_.erase(block.hash);
  block.hash = 0;
  block.tokens.clear();
}

uint64_t BlockManager::root(std::string_view extra_key) const {
  return keyed_hash(key_, std::as_bytes(std::span(extra_key.data(), extra_key.size())));
}

uint64_t BlockManager::chain(uint64_t parent, std::span<const text::TokenId> tokens) const {
  uint64_t hash = keyed_hash({key_.low ^ parent, key_.high}, std::as_bytes(tokens));
  return hash ? hash : 1;  // 0 means "not published"
}

// A hash only suggests a block; the tokens are compared.
BlockId BlockManager::lookup(uint64_t hash, uint64_t parent, std::span<const text::TokenId> tokens) const {
  auto found = published_.find(hash);
  if (found == published_.end()) return -1;
  const auto& block = blocks_[static_cast<size_t>(found->second)];
  return block.parent == parent && std::ranges::equal(block.tokens, tokens) ? found->second : -1;
}

// visit(index, hash, parent's hash, tokens) for each full block except one at the end of the sequence, until it returns false.
template <class Visit>
void BlockManager::for_full_blocks(std::span<const text::TokenId> tokens, std::string_view extra_key, Visit visit) const {
  uint64_t parent = root(extra_key);
  auto size = static_cast<size_t>(block_size_);
  for (size_t i = 0; (i + 1) * size < tokens.size(); ++i) {
    auto block_tokens = tokens.subspan(i * size, size);
    auto hash = chain(parent, block_tokens);
    if (!visit(i, hash, parent, block_tokens)) return;
    parent = hash;
  }
}

std::vector<BlockId> BlockManager::find_prefix(std::span<const text::TokenId> tokens, std::string_view extra_key) {
  std::vector<BlockId> found;
  if (!prefix_cache_) return found;
  for_full_blocks(tokens, extra_key, [&](size_t, uint64_t hash, uint64_t parent, auto block_tokens) {
    auto id = lookup(hash, parent, block_tokens);
    if (id >= 0) found.push_back(id);
    return id >= 0;
  });
  for (auto id : found) take(id);
  return found;
}

bool BlockManager::is_pending(std::span<const text::TokenId> tokens, std::string_view extra_key) const {
  if (pending_hashes_.empty()) return false;
  bool waiting = false;
  for_full_blocks(tokens, extra_key, [&](size_t, uint64_t hash, uint64_t parent, auto block_tokens) {
    if (lookup(hash, parent, block_tokens) >= 0) return true;
    waiting = pending_hashes_.contains(hash);
    return false;
  });
  return waiting;
}

void BlockManager::mark_pending(std::span<const text::TokenId> tokens, std::string_view extra_key) {
  if (!prefix_cache_) return;
  for_full_blocks(tokens, extra_key, [&](size_t, uint64_t hash, uint64_t, auto) {
    pending_hashes_.insert(hash);
    return true;
  });
}

void BlockManager::cache_full_blocks(std::span<const text::TokenId> tokens, std::string_view extra_key,
                                     const std::vector<BlockId>& blocks, int64_t known, int64_t computed) {
  if (!prefix_cache_ || computed / block_size_ <= known) return;
  auto size = static_cast<size_t>(block_size_), first = static_cast<size_t>(known);
  uint64_t parent = known > 0 ? blocks_[static_cast<size_t>(blocks[first - 1])].hash : 0;
  if (!parent) first = 0, parent = root(extra_key);  // the same content is already cached: the chain is followed from its root
  for (size_t i = first; i < static_cast<size_t>(computed / block_size_); ++i) {
    auto block_tokens = tokens.subspan(i * size, size);
    auto hash = chain(parent, block_tokens);
    auto& block = blocks_[static_cast<size_t>(blocks[i])];
    if (!block.hash && published_.try_emplace(hash, blocks[i]).second) {
      block.hash = hash;
      block.parent = parent;
      block.tokens.assign(block_tokens.begin(), block_tokens.end());
    }
    parent = hash;
  }
}

void BlockManager::reset_prefix_cache() {
  published_.clear();
  pending_hashes_.clear();
  for (auto& block : blocks_) block.hash = 0, block.tokens.clear();
  empty_.splice(empty_.end(), evictable_);
}

void BlockManager::check(std::span<const std::vector<BlockId>* const> holders) const {
  std::vector<int32_t> references(blocks_.size());
  for (const auto* held : holders)
    for (auto id : *held) ++references.at(static_cast<size_t>(id));
  int64_t used = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    HONE_CHECK(blocks_[i].references == references[i], "block {} counts {} references of {}", i, blocks_[i].references,
               references[i]);
    HONE_CHECK(!blocks_[i].hash || published_.at(blocks_[i].hash) == static_cast<BlockId>(i),
               "block {} is published under another's name", i);
    used += references[i] > 0;
  }
  HONE_CHECK(used == used_, "{} blocks are used, {} counted", used, used_);
  HONE_CHECK(empty_.size() + evictable_.size() + static_cast<size_t>(used_) == blocks_.size(), "a block is in no list");
}

}  // namespace hone::engine
