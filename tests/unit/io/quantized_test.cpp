// Formats of quantized values: what is packed comes back, bit for bit, and words are laid out as their readers expect.
#include <gtest/gtest.h>

#include "hone/io/quantized/bitsandbytes.h"
#include "hone/io/quantized/fp8.h"
#include "hone/io/quantized/gptq_awq.h"
#include "hone/io/quantized/quantized_folder.h"

namespace hone::io {
namespace {

Tensor random_codes(int64_t rows, int64_t columns, int bits) { return at::randint(0, 1 << bits, {rows, columns}, at::kInt); }

TEST(Packed, WordsHoldTheLowestFirst) {
  auto words = pack_columns(at::arange(8, at::kInt).view({1, 8}), 4);
  EXPECT_EQ(words.item<int>(), 0x76543210);
  EXPECT_EQ(pack_columns(at::full({1, 4}, 255, at::kInt), 8).item<int>(), -1);
  for (int bits : {2, 4, 8}) {
    auto values = random_codes(32, 64, bits);
    EXPECT_TRUE(at::equal(unpack_rows(pack_rows(values, bits), bits), values));
    EXPECT_TRUE(at::equal(unpack_columns(pack_columns(values, bits), bits), values));
  }
}

TEST(Packed, GptqComesBackInBothVersions) {
  for (int bits : {2, 4, 8})
    for (bool less_one : {true, false}) {
      int64_t out = 32, in = 64, groups = 4;
      auto codes = random_codes(out, in, bits), zeros = random_codes(out, groups, bits);
      auto scales = (at::rand({out, groups}) + 0.1).to(at::kHalf).to(at::kFloat);
      auto index = at::randperm(in, at::kLong).remainder(groups).to(at::kInt);  // in any order
      auto packed = pack_gptq(codes, scales, zeros, index, bits, less_one);
      auto wanted =
          (codes - zeros.index_select(1, index.to(at::kLong))).to(at::kFloat) * scales.index_select(1, index.to(at::kLong));
      EXPECT_TRUE(at::allclose(dequantize(packed, bits, less_one), wanted)) << bits << less_one;
    }
}

TEST(Packed, AwqComesBack) {
  auto codes = random_codes(16, 64, 4), zeros = random_codes(16, 2, 4);
  auto scales = (at::rand({16, 2}) + 0.1).to(at::kHalf).to(at::kFloat);
  auto wanted = (codes - zeros.repeat_interleave(32, 1)).to(at::kFloat) * scales.repeat_interleave(32, 1);
  EXPECT_TRUE(at::allclose(dequantize(pack_awq(codes, scales, zeros)), wanted));
}

TEST(Packed, Fp8IsWithinItsStep) {
  auto weight = at::randn({200, 300});
  auto packed = pack_fp8(weight);
  EXPECT_EQ(packed.scales.sizes(), at::IntArrayRef({2, 3}));
  auto change = (dequantize_fp8(packed.codes, packed.scales) - weight).abs();
  EXPECT_LT((change - weight.abs() / 16).max().item<float>(), 1e-2);
  EXPECT_TRUE(at::equal(dequantize_fp8(packed.codes, at::ones({1})), packed.codes.to(at::kFloat)));
}

TEST(Packed, AStateThatDoesNotFitIsAnError) {
  Bnb4Weight weight{at::zeros({32, 1}, at::kByte), at::ones({1}), at::ones({16}), {}, {}, {{"shape", {8, 8}}, {"blocksize", 64}}};
  EXPECT_TRUE(dequantize(weight));
  for (Json state : {Json::object(), Json{{"shape", {8, 9}}}, Json{{"shape", {-8, 8}}}, Json{{"shape", {8, 8}}, {"blocksize", 0}},
                     Json{{"shape", "8x8"}}}) {
    weight.state = state;
    EXPECT_FALSE(dequantize(weight)) << state;
  }
  EXPECT_FALSE(parse_state(at::full({3}, 255, at::kByte)));
  EXPECT_EQ(*parse_state(state_tensor({{"a", 1}})), (Json{{"a", 1}}));
}

TEST(Packed, PartsOfOtherShapesAreNamed) {
  TensorEntry codes{"a.qweight", at::kInt, {8, 16}, 0, 0}, zeros{"a.qzeros", at::kInt, {1, 2}, 0, 0},
      scales{"a.scales", at::kHalf, {1, 15}, 0, 0};
  EntryMap entries{{"a.qweight", &codes}, {"a.qzeros", &zeros}, {"a.scales", &scales}};
  auto read = [](const std::string&) { return Tensor(); };
  try {
    quantized_entries({{"quant_method", "gptq"}, {"bits", 4}}, entries, read, "folder");
    FAIL();
  } catch (const UserError& problem) {
    EXPECT_NE(std::string(problem.what()).find("folder: a: its scales"), std::string::npos) << problem.what();
  }
  scales.shape = {1, 16};
  auto found = quantized_entries({{"quant_method", "gptq"}, {"bits", 4}}, entries, read, "folder");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].entry.name, "a.weight");
  EXPECT_EQ(found[0].entry.shape, (std::vector<int64_t>{16, 64}));
  EXPECT_THROW(quantized_entries({{"quant_method", "aqlm"}}, entries, read, "folder"), UserError);
}

}  // namespace
}  // namespace hone::io
