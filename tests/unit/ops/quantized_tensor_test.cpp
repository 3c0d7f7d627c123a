#include "hone/ops/quantization/quantized_tensor.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"

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

// Layers that are sharded compute with the values that one process has, wherever a shard begins.
TEST(QuantizedTensor, RectanglesHaveTheValuesOfTheWhole) {
  auto weight = at::randn({48, 88});  // blocks of 64 do not end with rows
  const QuantizedTensor::Range all_rows{0, 48}, all_columns{0, 88}, rows{16, 24}, columns{44, 44}, odd{3, 37};
  const WeightQuantization by_rows{.code = QuantType::grouped, .grouped = {.axis = 0, .group = 6}};
  for (const WeightQuantization& how :
       {WeightQuantization{}, WeightQuantization{.double_quant = true}, WeightQuantization{.code = QuantType::fp4},
        WeightQuantization{.code = QuantType::int8}, WeightQuantization{.code = QuantType::grouped}, by_rows,
        WeightQuantization{.code = QuantType::grouped, .grouped = {.bits = 3}}}) {
    const QuantizedTensor whole(weight, how);
    const auto values = whole.dequantize(at::kFloat);
    for (const auto& [r, c] : {std::pair(rows, all_columns), {all_rows, columns}, {rows, columns}, {all_rows, odd}}) {
      const auto part = whole.part(r, c);
      EXPECT_TRUE(part->dequantize(at::kFloat).equal(values.narrow(0, r.begin, r.count).narrow(1, c.begin, c.count)));
      EXPECT_TRUE(part->to(at::kCPU)->dequantize(at::kFloat).equal(part->dequantize(at::kFloat)));
    }
  }
  EXPECT_THROW(QuantizedTensor(weight, by_rows).part({12, 24}, all_columns), UserError);
}

}  // namespace
}  // namespace hone::ops
