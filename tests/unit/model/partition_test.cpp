#include "hone/model/tensor_parallel/partition.h"

#include <gtest/gtest.h>

namespace hone::model {
namespace {

Tensor counted(at::IntArrayRef shape) { return at::arange(c10::multiply_integers(shape), at::kFloat).view(shape); }

Tensor put_together(const Tensor& whole, const TensorPartition& partition, int64_t count) {
  auto made = at::full_like(whole, -1);
  for (int64_t rank = 0; rank < count; ++rank) {
    const auto slice = partition.slice(whole.sizes(), rank, count);
    const auto part = slice.cut(whole);
    EXPECT_EQ(part.sizes().vec(), slice.shape);
    slice.paste(made, part);
  }
  return made;
}

TEST(TensorPartition, PartsMakeTheWholeAgain) {
  const auto matrix = counted({7, 6});
  for (int64_t count : {1, 2, 3})
    for (int64_t dimension : {0, 1}) {
      const TensorPartition partition{.dimension = dimension, .units = matrix.size(dimension)};
      EXPECT_TRUE(at::equal(put_together(matrix, partition, count), matrix)) << dimension << " over " << count;
    }
  const auto experts = counted({3, 8, 5});
  EXPECT_TRUE(at::equal(put_together(experts, gate_up_partition(4), 2), experts));
}

TEST(TensorPartition, GateAndUpAreCutEachByItself) {
  const auto stacked = counted({1, 4, 1});  // gate 0 1, up 2 3
  const auto part = gate_up_partition(2).slice(stacked.sizes(), 1, 2).cut(stacked);
  EXPECT_TRUE(at::equal(part.view(-1), at::tensor({1.0f, 3.0f})));
}

TEST(TensorPartition, FewHeadsAreOnSeveralRanks) {
  const auto weight = counted({2 * 3, 2});  // two heads of three rows
  const TensorPartition partition{.dimension = 0, .units = 2};
  EXPECT_EQ(partition.replicas(4), 2);
  EXPECT_EQ(partition.replicas(2), 1);
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_TRUE(at::equal(partition.slice(weight.sizes(), rank, 4).cut(weight), weight.narrow(0, rank / 2 * 3, 3)));
}

TEST(TensorPartition, NothingCutIsEverywhere) {
  const TensorPartition partition;
  EXPECT_TRUE(partition.slice({4, 2}, 1, 2).is_whole());
  EXPECT_EQ(partition.replicas(2), 2);
}

TEST(LinearPartition, UpdatesAreCutAsTheirProductIs) {
  using Cut = LinearPartition::Cut;
  const LinearPartition outputs{Cut::outputs, 4}, inputs{Cut::inputs, 4};
  EXPECT_EQ(outputs.weight().dimension, 0);
  EXPECT_EQ(outputs.lora_a().dimension, -1);
  EXPECT_EQ(outputs.lora_a().gradient, PartialGradient::always);
  EXPECT_EQ(outputs.lora_b().dimension, 0);
  EXPECT_EQ(inputs.weight().dimension, 1);
  EXPECT_TRUE(inputs.bias().first_rank_only);
  EXPECT_EQ(inputs.lora_a().dimension, 1);
  EXPECT_EQ(inputs.lora_b().gradient, PartialGradient::always);
}

}  // namespace
}  // namespace hone::model
