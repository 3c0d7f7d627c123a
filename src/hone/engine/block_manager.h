// The KV blocks of the paged cache: reference counts, and the prefix cache, which finds full blocks by a hash of their tokens.
#pragma once
#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hone/engine/keyed_hash.h"
#include "hone/text/tokenizer.h"

namespace hone::engine {

using BlockId = int32_t;

class BlockManager {
 public:
  BlockManager(int64_t blocks, int64_t block_size, bool prefix_cache);

  int64_t block_size() const { return block_size_; }
  int64_t blocks() const { return total_; }
  int64_t free_blocks() const { return total_ - used_; }  // including those kept only for the prefix cache
  int64_t blocks_for(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }

  // A fresh block with one reference; there must be a free one.
  BlockId allocate();
  void share(std::span<const BlockId> blocks);  // one more reference to each
  void release(std::vector<BlockId>& blocks);   // drops one reference each and clears the list

  // Cached full blocks of the longest prefix of `tokens`, never all of it: a step must compute something. The extra key separates
  // other computations (the adapter). Takes a reference to each.
  std::vector<BlockId> find_prefix(std::span<const text::TokenId> tokens, std::string_view extra_key);
  // Concurrent prompts with a shared prefix: one marks the blocks that it computes in this step, the others wait until they
  // are published.
  void mark_pending(std::span<const text::TokenId> tokens, std::string_view extra_key);
  bool is_pending(std::span<const text::TokenId> tokens,
                  std::string_view extra_key) const;  // the first block that find_prefix misses
  void clear_pending() { pending_hashes_.clear(); }

  // Publishes the full blocks among the first `computed` tokens in the prefix cache; the first `known` blocks already are.
  void cache_full_blocks(std::span<const text::TokenId> tokens, std::string_view extra_key, const std::vector<BlockId>& blocks,
                         int64_t known, int64_t computed);
  void reset_prefix_cache();  // removes every published block: the weights changed

  // Throws InternalError when counts, lists and tables disagree. For tests and idle checks.
  void check(std::span<const std::vector<BlockId>* const> holders) const;

 private:
  struct Block {
    int32_t references = 0;
    uint64_t hash = 0, parent = 0;  // hash 0: not published
    std::vector<text::TokenId> tokens;
    std::list<BlockId>::iterator position;  // in one of the lists below while it has no reference
  };
  uint64_t root(std::string_view extra_key) const;
  uint64_t chain(uint64_t parent, std::span<const text::TokenId> tokens) const;
  BlockId lookup(uint64_t hash, uint64_t parent, std::span<const text::TokenId> tokens) const;  // -1: not cached
  template <class Visit>
  void for_full_blocks(std::span<const text::TokenId> tokens, std::string_view extra_key, Visit visit) const;
  void take(BlockId id);
  void unpublish(Block& block);

  int64_t total_, block_size_, used_ = 0;
  bool prefix_cache_;
  HashKey key_;
  std::vector<Block> blocks_;     // grows with the first use of blocks, so that a large cache costs nothing before
  std::list<BlockId> empty_;      // free and not published
  std::list<BlockId> evictable_;  // free but published, least recently used first
  std::unordered_map<uint64_t, BlockId> published_;
  std::unordered_set<uint64_t> pending_hashes_;
};

}  // namespace hone::engine
