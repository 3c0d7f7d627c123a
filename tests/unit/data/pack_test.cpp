// Packing: nothing lost, nothing too long, the order each rule promises.
#include <gtest/gtest.h>

#include <numeric>

#include "hone/base/rng.h"
#include "hone/data/batches/pack.h"

namespace hone::data {
namespace {

class EveryPacking : public testing::TestWithParam<Packing> {};

TEST_P(EveryPacking, KeepsEverySampleAndTheCapacity) {
  Rng rng(7);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int64_t> lengths(rng.below(300) + 1);
    for (auto& length : lengths) length = static_cast<int64_t>(rng.below(100)) + 1;
    std::vector<int> seen(lengths.size());
    for (const auto& pack : pack(GetParam(), lengths, 100)) {
      int64_t total = 0;
      for (size_t index : pack) ++seen[index], total += lengths[index];
      EXPECT_LE(total, 100);
      EXPECT_FALSE(pack.empty());
    }
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), static_cast<int>(lengths.size()));
    EXPECT_EQ(*std::min_element(seen.begin(), seen.end()), 1);
  }
}
INSTANTIATE_TEST_SUITE_P(Pack, EveryPacking,
                         testing::Values(Packing::none, Packing::best_fit, Packing::next_fit, Packing::knapsack,
                                         Packing::joined));

TEST(Pack, BestFitFillsTheFullest) { EXPECT_EQ(pack_best_fit({6, 5, 4, 3, 2}, 10), (Packs{{0, 2}, {1, 3, 4}})); }
TEST(Pack, NextFitKeepsOrder) { EXPECT_EQ(pack_next_fit({6, 5, 4, 3, 2}, 10), (Packs{{0}, {1, 2}, {3, 4}})); }
TEST(Pack, KnapsackTakesTheLongestThatFitsAndTheLastOfEquals) {
  EXPECT_EQ(pack_knapsack({4, 4, 6, 3}, 10), (Packs{{2, 1}, {0, 3}}));
  EXPECT_EQ(pack_knapsack({12, 4, 11}, 10), (Packs{{1}, {0}, {2}}));  // what no pack holds gets its own
}

}  // namespace
}  // namespace hone::data
