#include "hone/ops/quantization/quantized_tensor.h"

#include <gtest/gtest.h>

namespace hone::ops {
namespace {

// Those who count or move what a weight is kept as ask for it whatever its code.
TEST(QuantizedTensor, PartsAreAllThatIsHeldAndTablesBelongToCodesThatAreLookedUp) {
  auto weight = at::randn({64, 128});
  for (const WeightQuantization& how :
       {WeightQuantization{}, WeightQuantization{.double_quant = true}, WeightQuantization{.code = QuantType::fp4},
        WeightQuantization{.code = QuantType::int8}, WeightQuantization{.code = QuantType::grouped}}) {
    const QuantizedTensor kept(weight, how);
    const auto parts = kept.parts();
    const bool looked_up = how.code == QuantType::nf4 || how.code == QuantType::fp4;
    EXPECT_EQ(kept.bytes(), parts.codes.nbytes() + parts.scales.nbytes() + (parts.outer.defined() ? parts.outer.nbytes() : 0));
    EXPECT_EQ(parts.table.defined(), looked_up);
    EXPECT_EQ(parts.scale_table.defined(), how.double_quant);
  }
}

}  // namespace
}  // namespace hone::ops
