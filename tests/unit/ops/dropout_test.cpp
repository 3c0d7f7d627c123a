#include "hone/ops/cpu/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hone::ops::cpu {
namespace {

Tensor mask_of(std::initializer_list<int64_t> shape, double kept) {
  auto mask = at::empty(shape, at::kFloat);
  fill_dropout_mask(mask, kept);
  return mask;
}

TEST(DropoutMask, KeepsItsShareEverywhere) {
  at::manual_seed(3);
  for (double kept : {0.9, 0.5, 0.05}) {
    auto mask = mask_of({500, 1001}, kept);
    auto stays = mask == static_cast<float>(1 / kept);
    EXPECT_TRUE((stays.logical_or(mask == 0)).all().item<bool>());
    double deviation = std::sqrt(kept * (1 - kept));
    EXPECT_NEAR(stays.to(at::kDouble).mean().item<double>(), kept, 5 * deviation / std::sqrt(500 * 1001));
    // No row and no column is favored.
    EXPECT_LT((stays.to(at::kDouble).mean(0) - kept).abs().max().item<double>(), 6 * deviation / std::sqrt(500));
    EXPECT_LT((stays.to(at::kDouble).mean(1) - kept).abs().max().item<double>(), 6 * deviation / std::sqrt(1001));
  }
}

TEST(DropoutMask, NeighboursAndDrawsAreIndependent) {
  at::manual_seed(5);
  auto first = mask_of({1 << 20}, 0.5) - 1, second = mask_of({1 << 20}, 0.5) - 1;
  double bound = 5 / std::sqrt(1 << 20);
  EXPECT_LT(std::abs((first * second).mean().item<double>()), bound);
  for (int64_t apart : {1, 2, 16, 64, 1024})
    EXPECT_LT(std::abs((first.slice(0, apart) * first.slice(0, 0, -apart)).mean().item<double>()), bound) << apart;
}

TEST(DropoutMask, FollowsTheGenerator) {
  at::manual_seed(8);
  auto first = mask_of({77}, 0.7);
  EXPECT_FALSE(at::equal(first, mask_of({77}, 0.7)));
  at::manual_seed(8);
  EXPECT_TRUE(at::equal(first, mask_of({77}, 0.7)));
}

}  // namespace
}  // namespace hone::ops::cpu
