// Arm's matrix instructions, beside the definition and beside what every Arm processor has. A test passes over what the processor
// lacks; tests/model/test_arm_instructions.py runs them on an emulated one that has them all.
#if defined(__aarch64__)

#include <gtest/gtest.h>

#include <cmath>

#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
#include "hone/ops/cpu/gemm/bf16_mmla_gemm.h"
#include "hone/ops/cpu/gemm/panel_dots_kernels.h"
#include "hone/ops/cpu/gemm/panel_gemm.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "ops/ops_testing.h"

namespace hone::ops::cpu {
namespace {

#define NEEDS(feature) \
  if (!device::cpu_features().feature) GTEST_SKIP() << "this processor lacks it: " #feature

// A product of one panel of rows with one of columns, as panel_dots.cpp calls for it. Lines that are not there are zero.
struct PanelProduct {
  int64_t lines, outputs, groups;
  Tensor x, codes, row_scales = at::rand({groups, kPanelRows}), row_sums = at::randn({groups, kPanelRows}),
                   column_scales = at::randn({groups, 2, kPanelColumns}), start = at::randn({kPanelRows, kPanelColumns});

  // Words of rows and of outputs, whatever bytes they hold.
  PanelProduct(int64_t rows, int64_t columns, int64_t group_count, int64_t row_words, int64_t code_words)
      : lines(rows),
        outputs(columns),
        groups(group_count),
        x(at::randint(-127, 128, {rows, groups * row_words * 4}, at::kChar)),
        codes(at::randint(0, 256, {columns, groups * code_words * 4}).to(at::kByte)) {}

  WordLines rows(int64_t words) const { return {reinterpret_cast<const int32_t*>(x.const_data_ptr()), groups * words, lines, 0}; }
  WordLines columns(const Tensor& interleaved) const {
    return {interleaved.const_data_ptr<int32_t>(), interleaved.size(1), outputs, 0};
  }

  Tensor int8(const PanelDotKernels& kernels) const {
    auto packed = at::empty({groups * kInt8RowWords * kPanelRows}, at::kInt), sums = start.clone(),
         weights = at::empty({groups * kInt8ColumnWords * kPanelColumns}, at::kInt);
    const auto words = interleave_codes(codes.view(at::kInt));
    kernels.pack_int8_rows(rows(kInt8RowWords), groups, packed.mutable_data_ptr<int32_t>());
    kernels.pack_int8_columns(columns(words), groups, weights.mutable_data_ptr<int32_t>());
    kernels.multiply_int8(packed.const_data_ptr<int32_t>(), row_scales.const_data_ptr<float>(), weights.const_data_ptr<int32_t>(),
                          groups, sums.mutable_data_ptr<float>(), kPanelColumns);
    return sums;
  }
  // Inputs are 128 times their high byte and their low one; each group of them has its scale.
  Tensor int8_defined() const {
    auto bytes = x.to(at::kDouble).view({lines, groups, 2, 64}), inputs = bytes.select(2, 0) * 128 + bytes.select(2, 1);
    auto weights = (codes.to(at::kDouble) - 128).view({outputs, groups, 64});
    auto scaled = inputs * row_scales.narrow(1, 0, lines).t().unsqueeze(2);
    return at::einsum("mgi,ngi->mn", {scaled, weights});
  }

  Tensor int4(const PanelDotKernels& kernels) const {
    auto packed = at::empty({groups * kInt4Words * kPanelRows}, at::kInt), sums = start.clone(),
         weights = at::empty({groups * kInt4Words * kPanelColumns}, at::kInt);
    const auto words = interleave_codes(codes.view(at::kInt));
    kernels.pack_int4_rows(rows(kInt4Words), groups, packed.mutable_data_ptr<int32_t>());
    kernels.pack_int4_columns(columns(words), groups, weights.mutable_data_ptr<int32_t>());
    kernels.multiply_int4(packed.const_data_ptr<int32_t>(), row_scales.const_data_ptr<float>(), row_sums.const_data_ptr<float>(),
                          weights.const_data_ptr<int32_t>(), column_scales.const_data_ptr<float>(), groups,
                          sums.mutable_data_ptr<float>(), kPanelColumns);
    return sums;
  }
  // Rows hold the even inputs of four groups, then their odd ones. The lower halves of the codes' bytes meet the even inputs of
  // their group, the upper ones the odd ones.
  Tensor int4_defined() const {
    auto inputs = x.to(at::kDouble).view({lines, groups / 4, 2, 4, 16}).transpose(2, 3).reshape({lines, groups, 32}),
         bytes = codes.to(at::kLong).view({outputs, groups, 16});
    auto weights = at::cat({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, 2).to(at::kDouble);
    auto of_rows = row_scales.narrow(1, 0, lines).to(at::kDouble), scales = column_scales.select(1, 0).narrow(1, 0, outputs),
         lowest = column_scales.select(1, 1).narrow(1, 0, outputs);
    return at::einsum("mgi,ngi,gm,gn->mn", {inputs, weights, of_rows, scales.to(at::kDouble)}) +
           at::einsum("gm,gn->mn", {row_sums.narrow(1, 0, lines), lowest});
  }
  Tensor inside(const Tensor& sums) const { return (sums - start).narrow(0, 0, lines).narrow(1, 0, outputs); }
};

void expect_panels(const PanelDotKernels& kernels) {
  at::manual_seed(5);
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{8, 12}, {1, 1}, {7, 5}, {3, 11}})
    for (int64_t groups : {4, 12, 16}) {
      const PanelProduct eight(rows, columns, groups, kInt8RowWords, kInt8ColumnWords),
          four(rows, columns, groups, kInt4Words, 4);
      EXPECT_LT(relative_difference(eight.inside(eight.int8(kernels)), eight.int8_defined()), 1e-4) << rows << " x " << columns;
      EXPECT_LT(relative_difference(four.inside(four.int4(kernels)), four.int4_defined()), 1e-4) << rows << " x " << columns;
    }
}

TEST(ArmPanels, DotProductsOfBytes) {
  NEEDS(int8_dot);
  expect_panels(kSdotPanels);
}

TEST(ArmPanels, MatricesOfBytes) {
  NEEDS(int8_matrix);
  expect_panels(kSmmlaPanels);
  const PanelProduct eight(7, 11, 5, kInt8RowWords, kInt8ColumnWords), four(7, 11, 8, kInt4Words, 4);
  EXPECT_TRUE(at::equal(eight.int8(kSmmlaPanels), eight.int8(kSdotPanels))) << "the bits of dot products";
  EXPECT_TRUE(at::equal(four.int4(kSmmlaPanels), four.int4(kSdotPanels))) << "the bits of dot products";
}

TEST(ArmPanels, ScalableVectorsGiveTheBitsOfNeon) {
  if (device::cpu_features().sve_bytes != 32) GTEST_SKIP() << "this processor has no scalable vectors of 256 bits";
  for (int64_t depth : {1, 7, 384}) {
    auto x = at::randn({depth, kPanelRows}), w = at::randn({depth, kPanelColumns});
    for (bool increase : {false, true}) {
      auto start = at::randn({kPanelRows, 20}), neon = start.clone(), sve = start.clone();
      multiply_panels(x.const_data_ptr<float>(), w.const_data_ptr<float>(), depth, neon.mutable_data_ptr<float>(), 20, increase);
      multiply_panels_sve256(x.const_data_ptr<float>(), w.const_data_ptr<float>(), depth, sve.mutable_data_ptr<float>(), 20,
                             increase);
      EXPECT_TRUE(at::equal(sve, neon)) << depth;
      auto product = at::mm(x.t(), w) + (increase ? start.narrow(1, 0, kPanelColumns) : at::zeros({1}));
      EXPECT_LT(relative_difference(neon.narrow(1, 0, kPanelColumns), product), 1e-5) << depth;
    }
  }
}

// Products of bfloat16 numbers summed in float32, so that the error is float32's. On any Arm processor, by what it has.
TEST(ArmPanels, Bfloat16IsSummedInFloat32) {
  at::manual_seed(6);
  for (auto [rows, depth, columns] :
       {std::tuple<int64_t, int64_t, int64_t>{40, 9, 13}, {8, 384, 12}, {67, 1157, 50}, {33, 3, 1}}) {
    auto a = at::randn({rows, depth}).to(at::kBFloat16), b = at::randn({depth, columns}).to(at::kBFloat16),
         bias = at::randn({columns});
    auto exact = (at::mm(a.to(at::kDouble), b.to(at::kDouble)) + bias).to(at::kFloat);
    auto a_transposed = a.t().contiguous().t(), b_transposed = b.t().contiguous().t();
    auto strided = at::randn({2 * rows, 3 * depth}).to(at::kBFloat16).slice(0, 0, 2 * rows, 2).slice(1, 0, 3 * depth, 3).copy_(a);
    for (const auto& left : {a, a_transposed, strided})
      for (const auto& right : {b, b_transposed}) {
        auto out = at::full({rows, columns}, NAN);
        panel_gemm(left, right, bias, out);
        EXPECT_LT(relative_difference(out, exact), 2e-6) << rows << ' ' << depth << ' ' << columns;
      }
  }
}

// More rows than are packed at once, sums of several panels, columns that fill no panel: rounded once, into columns of a wider
// tensor whose others stay. Its name keeps it off the emulated processor, which is slow.
TEST(PanelUpdates, MatchTheirDefinition) {
  constexpr int64_t kLines = 1030, kTerms = 5000, kOutputs = 20;
  constexpr double kScale = 0.3;
  at::manual_seed(8);
  const auto a = at::randn({kLines, kTerms}) / std::sqrt(kTerms), b = at::randn({kTerms, kOutputs}),
             before = at::randn({kLines, kOutputs + 3}), kept = at::rand({kLines, kOutputs + 5}).lt(0.8).div(0.8);
  for (auto type : kTypes) {
    const double unit = type == at::kFloat ? 0x1p-24 : type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
    const auto left = a.to(type), right = b.to(type), start = before.to(type);
    const auto product = at::mm(left.to(at::kDouble), right.to(at::kDouble)) * kScale;
    for (bool masked : {false, true})
      for (bool adds : {false, true}) {
        SCOPED_TRACE(fmt::format("{}{}{}", c10::toString(type), masked ? ", mask" : "", adds ? ", adds" : ""));
        auto wide = start.clone(), out = wide.narrow(1, 1, kOutputs);
        const auto mask = masked ? kept.narrow(1, 2, kOutputs) : Tensor();
        panel_gemm(left, right, PanelUpdate{.scale = kScale, .mask = mask, .adds = adds}, out);
        auto expected = masked ? product * mask : product;
        if (adds) expected = expected + start.narrow(1, 1, kOutputs).to(at::kDouble);
        EXPECT_TRUE(at::allclose(out.to(at::kDouble), expected, unit, 1e-5)) << relative_difference(out, expected);
        EXPECT_TRUE(at::equal(wide.narrow(1, 0, 1), start.narrow(1, 0, 1)));
        EXPECT_TRUE(at::equal(wide.narrow(1, kOutputs + 1, 2), start.narrow(1, kOutputs + 1, 2)));
      }
  }
}

TEST(ArmRows, MatricesOfBfloat16) {
  NEEDS(arm_bf16);
  at::manual_seed(7);
  for (int64_t width : {3, 8, 40, 897}) {
    auto x = at::randn({32, width}).to(at::kBFloat16), weight = at::randn({21, width}).to(at::kBFloat16);
    auto exact = at::mm(x.to(at::kDouble), weight.to(at::kDouble).t()).to(at::kFloat);
    Tensor all;
    for (int64_t rows : {32, 1, 2, 3, 5, 8, 11, 16, 31})
      for (int64_t outputs : {21, 1, 8, 15}) {
        auto packed = at::full({mmla_packed_size(rows, width)}, NAN).to(at::kBFloat16), y = at::full({rows, outputs}, NAN);
        pack_for_mmla(x.const_data_ptr<c10::BFloat16>(), packed.mutable_data_ptr<c10::BFloat16>(), rows, width);
        mmla_outputs(packed.const_data_ptr<c10::BFloat16>(), weight.const_data_ptr<c10::BFloat16>(), y.mutable_data_ptr<float>(),
                     {rows, width, outputs, outputs});
        if (!all.defined()) all = y;
        EXPECT_LT(relative_difference(y, exact.narrow(0, 0, rows).narrow(1, 0, outputs)), 2e-6)
            << width << ", " << rows << " rows";
        EXPECT_TRUE(at::equal(y, all.narrow(0, 0, rows).narrow(1, 0, outputs))) << "a row depends on others: " << rows;
      }
  }
}

}  // namespace
}  // namespace hone::ops::cpu

#endif
