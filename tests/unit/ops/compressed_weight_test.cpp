#include "hone/ops/compressed_weight.h"

#include <gtest/gtest.h>

namespace hone::ops {
namespace {

// Those who count or move what a weight is kept as ask for it whatever its code.
TEST(CompressedWeight, PartsAreAllThatIsHeldAndTablesBelongToCodesThatAreLookedUp) {
  auto weight = at::randn({64, 128});
  for (const Compression& how : {Compression{}, Compression{.compress_scales = true}, Compression{.code = WeightCode::fp4}, Compression{.code = WeightCode::int8},
                                 Compression{.code = WeightCode::grouped}}) {
    const CompressedWeight kept(weight, how);
    const auto parts = kept.parts();
    const bool looked_up = how.code == WeightCode::nf4 || how.code == WeightCode::fp4;
    EXPECT_EQ(kept.bytes(), parts.codes.nbytes() + parts.scales.nbytes() + (parts.outer.defined() ? parts.outer.nbytes() : 0));
    EXPECT_EQ(parts.table.defined(), looked_up);
    EXPECT_EQ(parts.scale_table.defined(), how.compress_scales);
  }
}

}  // namespace
}  // namespace hone::ops
