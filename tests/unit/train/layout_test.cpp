// What a run on several processes keeps and watches, without any process but this one.
#include <gtest/gtest.h>

#include "hone/train/checkpoints/saved_state.h"
#include "hone/train/distributed/straggler_detector.h"
#include "train/scratch_folder.h"

namespace hone::train {
namespace {

class Saved : public testing::Test {
 protected:
  void write(int rank, const std::vector<std::pair<std::string, Tensor>>& tensors) {
    std::vector<io::TensorSource> sources;
    for (const auto& [name, tensor] : tensors) sources.push_back(io::TensorSource::of(name, tensor));
    io::write_safetensors(folder.path() / state_name(rank, "safetensors"), sources);
  }
  ScratchFolder folder;
};

TEST_F(Saved, PiecesOfManyBecomePiecesOfOthers) {
  write(0, {{"optimizer/exp_avg/w@0", at::arange(0, 5).to(at::kFloat)}, {"optimizer/step", at::tensor({7})}});
  write(1, {{"optimizer/exp_avg/w@5", at::arange(5, 12).to(at::kFloat)}});
  SavedState saved(folder.path(), 2);
  auto whole = saved.read("optimizer/", {{"exp_avg/w", at::empty({3, 4})}});
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_TRUE(whole[0].second.equal(at::arange(12).to(at::kFloat).view({3, 4})));
  auto part = saved.read("optimizer/", {{"exp_avg/w@4", at::empty({6})}, {"step", at::empty({1}, at::kLong)}});
  ASSERT_EQ(part.size(), 2u);
  EXPECT_TRUE(part[0].second.equal(at::arange(4, 10).to(at::kFloat)));
  EXPECT_EQ(part[1].second.item<int64_t>(), 7);
}

TEST_F(Saved, WholeTensorsAreCutIntoPieces) {
  write(0, {{"master/a@b", at::arange(6).to(at::kFloat).view({2, 3})}});
  auto part = SavedState(folder.path(), 1).read("master/", {{"a@b@2", at::empty({3})}});
  ASSERT_EQ(part.size(), 1u);
  EXPECT_TRUE(part[0].second.equal(at::tensor({2.f, 3.f, 4.f})));
}

// Columns 2 and 3 of a matrix of four, on two processes that share them, and the rest on a third.
TEST_F(Saved, ShardsOfAPartBecomeTheWhole) {
  const auto whole = at::arange(24).to(at::kFloat).view({6, 4});
  const auto part = whole.narrow(1, 2, 2).reshape({-1});
  write(0, {{"optimizer/m/w@2:2:4@0", part.narrow(0, 0, 5)}});
  write(1, {{"optimizer/m/w@2:2:4@5", part.narrow(0, 5, 7)}});
  write(2, {{"optimizer/m/w@0:2:4", whole.narrow(1, 0, 2).contiguous()}});
  SavedState saved(folder.path(), 3);
  auto read =
      saved.read("optimizer/", {{"m/w", at::empty({6, 4})}, {"m/w@1:1:4", at::empty({6, 1})}, {"m/w@2:2:4@3", at::empty({4})}});
  ASSERT_EQ(read.size(), 3u);
  EXPECT_TRUE(read[0].second.equal(whole));
  EXPECT_TRUE(read[1].second.equal(whole.narrow(1, 1, 1)));
  EXPECT_TRUE(read[2].second.equal(part.narrow(0, 3, 4)));
  EXPECT_TRUE(SavedState(folder.path(), 2).read("optimizer/", {{"m/w", at::empty({6, 4})}}).empty());
}

TEST_F(Saved, WhatIsNotThereWholeIsLeftOut) {
  write(0, {{"optimizer/m/w@0", at::zeros({4})}});
  write(1, {{"optimizer/m/w@6", at::zeros({2})}});  // elements 4 and 5 were another process's, whose file is missing
  EXPECT_TRUE(SavedState(folder.path(), 2).read("optimizer/", {{"m/w", at::empty({8})}}).empty());
}

TEST(StragglerDetector, NamesASlowProcessOnceAndOnlyWhenItMatters) {
  StragglerDetector watch(4);
  int warnings = 0;
  for (int step = 0; step < 40; ++step)
    if (auto warning = watch.observe({0.10, 0.11, 0.32, 0.10})) {
      EXPECT_NE(warning->find("rank 2"), std::string::npos);
      ++warnings;
    }
  EXPECT_EQ(warnings, 1);
  StragglerDetector uniform(4), tiny(2);
  for (int step = 0; step < 40; ++step) {
    EXPECT_FALSE(uniform.observe({0.10, 0.13, 0.15, 0.11}));
    EXPECT_FALSE(tiny.observe({0.001, 0.009}));
  }
}

}  // namespace
}  // namespace hone::train
