#include "hone/model/encoders/tower_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "hone/base/file.h"

namespace hone::model {
namespace {

class TowerCacheTest : public testing::Test {
 protected:
  fs::path folder = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
  void SetUp() override { fs::remove_all(folder); }
  void TearDown() override { fs::remove_all(folder); }

  static TensorList features(int seed) { return {at::arange(6, at::kFloat).view({2, 3}) + seed, at::ones({2, 3}) * seed}; }
  static std::string key(int seed) { return medium_digest("tower", at::full({4}, seed, at::kFloat), "1x2x2"); }
  static size_t files_in(const fs::path& folder) {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) count += entry.is_regular_file();
    return count;
  }
};

TEST_F(TowerCacheTest, HitsAreTheMisses) {
  {
    TowerCache cache({folder});
    cache.get(key(1), at::kCPU, [] { return features(1); });
  }
  TowerCache again({folder});
  const auto found = again.get(key(1), at::kCPU, []() -> TensorList { throw std::logic_error("computed twice"); });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(at::equal(found[0], features(1)[0]));
  EXPECT_TRUE(at::equal(found[1], features(1)[1]));
  EXPECT_EQ(again.counts().hits, 1);
}

TEST_F(TowerCacheTest, KeysTellTowersContentAndShapesApart) {
  const auto rows = at::zeros({4});
  EXPECT_NE(medium_digest("a", rows, "1x2x2"), medium_digest("b", rows, "1x2x2"));
  EXPECT_NE(medium_digest("a", rows, "1x2x2"), medium_digest("a", rows, "1x1x4"));
  EXPECT_NE(medium_digest("a", rows, "1x2x2"), medium_digest("a", rows + 1, "1x2x2"));
}

TEST_F(TowerCacheTest, DamagedEntriesAreComputedAnew) {
  TowerCache cache({folder});
  cache.get(key(1), at::kCPU, [] { return features(1); });
  for (const auto* damage : {"flip", "cut", "empty"}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      auto content = read_file(entry.path());
      if (std::string_view(damage) == "flip") content.back() = static_cast<char>(content.back() ^ 1);
      if (std::string_view(damage) == "cut") content.resize(content.size() - 8);
      if (std::string_view(damage) == "empty") content.clear();
      std::ofstream(entry.path(), std::ios::binary | std::ios::trunc) << content;
    }
    const auto found = cache.get(key(1), at::kCPU, [] { return features(1); });
    EXPECT_TRUE(at::equal(found[0], features(1)[0])) << damage;
  }
  EXPECT_EQ(cache.counts().damaged, 3);
  EXPECT_EQ(cache.counts().misses, 4);
}

TEST_F(TowerCacheTest, StaysWithinItsSize) {
  TowerCache cache({folder, 4096});
  for (int seed = 0; seed < 40; ++seed) cache.get(key(seed), at::kCPU, [&] { return features(seed); });
  size_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_LE(bytes, 4096u);
  EXPECT_GT(cache.counts().evicted, 0);
  EXPECT_GT(files_in(folder), 0u);
}

TEST_F(TowerCacheTest, SeveralWritersShareAFolder) {
  std::vector<std::jthread> writers;
  std::atomic<int> wrong{0};
  for (int rank = 0; rank < 4; ++rank)
    writers.emplace_back([&, rank] {
      TowerCache cache({folder / "shared"});
      for (int i = 0; i < 20; ++i) {
        const int seed = (i * 7 + rank) % 5;
        wrong += !at::equal(cache.get(key(seed), at::kCPU, [&] { return features(seed); })[0], features(seed)[0]);
      }
    });
  writers.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files_in(folder), 5u);
}

}  // namespace
}  // namespace hone::model
