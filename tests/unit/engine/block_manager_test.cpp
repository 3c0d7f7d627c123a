#include "hone/engine/block_manager.h"

#include <gtest/gtest.h>

#include <map>

#include "hone/base/error.h"
#include "hone/base/rng.h"

namespace hone::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

Tokens counting(int from, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(from + i);
  return tokens;
}

// Computes and publishes `tokens` as a request would.
std::vector<BlockId> compute(BlockManager& manager, const Tokens& tokens, const std::string& origin = "") {
  auto blocks = manager.find_prefix(tokens, origin);
  auto known = static_cast<int64_t>(blocks.size());
  while (static_cast<int64_t>(blocks.size()) < manager.blocks_for(static_cast<int64_t>(tokens.size())))
    blocks.push_back(manager.allocate());
  manager.cache_full_blocks(tokens, origin, blocks, known, static_cast<int64_t>(tokens.size()));
  return blocks;
}

TEST(BlockManager, FindsEqualBeginningsAndShares) {
  BlockManager manager(16, 4, true);
  auto first = compute(manager, counting(0, 10));
  auto tokens = counting(0, 9);
  auto found = manager.find_prefix(tokens, "");
  EXPECT_EQ(found, std::vector<BlockId>(first.begin(), first.begin() + 2));
  EXPECT_EQ(manager.free_blocks(), 13);
  manager.release(first);
  EXPECT_EQ(manager.free_blocks(), 14) << "two are still held";
  manager.release(found);
  EXPECT_EQ(manager.free_blocks(), 16);
  EXPECT_EQ(manager.find_prefix(tokens, "").size(), 2u) << "free blocks are still found";
}

TEST(BlockManager, NeverFindsEverything) {
  BlockManager manager(16, 4, true);
  auto held = compute(manager, counting(0, 8));
  EXPECT_EQ(manager.find_prefix(counting(0, 8), "").size(), 1u) << "the last token must be computed";
}

TEST(BlockManager, OriginsAndContentSetApart) {
  BlockManager manager(16, 4, true);
  auto held = compute(manager, counting(0, 8), "adapter");
  EXPECT_TRUE(manager.find_prefix(counting(0, 8), "").empty());
  EXPECT_TRUE(manager.find_prefix(counting(1, 8), "adapter").empty());
  manager.reset_prefix_cache();
  EXPECT_TRUE(manager.find_prefix(counting(0, 8), "adapter").empty());
}

TEST(BlockManager, TakesTheLeastRecentlyUsedWhenFull) {
  BlockManager manager(4, 2, true);
  auto old = compute(manager, counting(0, 4)), recent = compute(manager, counting(10, 4));
  manager.release(old);
  manager.release(recent);
  auto taken = std::vector{manager.allocate(), manager.allocate()};
  EXPECT_EQ(manager.find_prefix(counting(10, 5), "").size(), 2u);
  EXPECT_TRUE(manager.find_prefix(counting(0, 5), "").empty());
}

TEST(BlockManager, AnnouncedPrefixesAreWaitedFor) {
  BlockManager manager(16, 4, true);
  manager.mark_pending(counting(0, 9), "");
  EXPECT_TRUE(manager.is_pending(counting(0, 9), ""));
  EXPECT_FALSE(manager.is_pending(counting(5, 9), ""));
  auto held = compute(manager, counting(0, 9));
  EXPECT_FALSE(manager.is_pending(counting(0, 9), "")) << "it can be found now";
}

TEST(BlockManager, WithoutPrefixCacheNothingIsFound) {
  BlockManager manager(16, 4, false);
  auto held = compute(manager, counting(0, 9));
  EXPECT_TRUE(manager.find_prefix(counting(0, 9), "").empty());
}

// Requests with few distinct tokens come and go in random order on a small cache: counts, lists and tables agree at every step,
// and a found block always holds what was asked for.
TEST(BlockManager, InvariantsHoldUnderRandomUse) {
  Rng rng(7);
  BlockManager manager(24, 4, true);
  struct Held {
    Tokens tokens;
    std::vector<BlockId> blocks;
  };
  std::vector<Held> requests;
  std::map<BlockId, Tokens> content;
  for (int step = 0; step < 4000; ++step) {
    bool add = requests.empty() || (rng.below(2) && requests.size() < 8);
    if (add) {
      Held held;
      for (auto length = 1 + rng.below(20); length > 0; --length) held.tokens.push_back(static_cast<text::TokenId>(rng.below(2)));
      auto size = static_cast<int64_t>(held.tokens.size());
      held.blocks = manager.find_prefix(held.tokens, "");
      auto known = held.blocks.size();
      for (size_t i = 0; i < known; ++i) {
        Tokens wanted(held.tokens.begin(), held.tokens.begin() + static_cast<ptrdiff_t>((i + 1) * 4));
        ASSERT_EQ(content[held.blocks[i]], wanted);
      }
      if (manager.free_blocks() < manager.blocks_for(size) - static_cast<int64_t>(known)) {
        manager.release(held.blocks);
      } else {
        while (static_cast<int64_t>(held.blocks.size()) < manager.blocks_for(size)) held.blocks.push_back(manager.allocate());
        for (size_t i = known; i < held.tokens.size() / 4; ++i)
          content[held.blocks[i]] = Tokens(held.tokens.begin(), held.tokens.begin() + static_cast<ptrdiff_t>((i + 1) * 4));
        manager.cache_full_blocks(held.tokens, "", held.blocks, static_cast<int64_t>(known), size);
        requests.push_back(std::move(held));
      }
    } else {
      auto victim = rng.below(requests.size());
      manager.release(requests[victim].blocks);
      requests.erase(requests.begin() + static_cast<ptrdiff_t>(victim));
    }
    std::vector<const std::vector<BlockId>*> holders;
    for (const auto& held : requests) holders.push_back(&held.blocks);
    ASSERT_NO_THROW(manager.check(holders)) << "step " << step;
  }
}

TEST(BlockManager, ReleasingTwiceIsNoticed) {
  BlockManager manager(4, 2, true);
  std::vector<BlockId> held{manager.allocate()}, again = held;
  manager.release(held);
  EXPECT_THROW(manager.release(again), InternalError);
}

}  // namespace
}  // namespace hone::engine
