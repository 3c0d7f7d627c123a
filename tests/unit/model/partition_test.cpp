#include "hone/model/tensor_parallel/partition.h"

#include <gtest/gtest.h>

namespace hone::model {
namespace {

Tensor counted(at::IntArrayRef shape) { return at::arange(c10::multiply_integers(shape), at::kFloat).view(shape); }

Tensor put_together(const Tensor& whole, const TensorPartition& partition, int64_t count) {
  auto made = at::full_like(whole, -1);
  for (int64_t rank = 0; rank < count; ++rank) {
    const auto shard = partition.shard(whole.sizes(), rank, count);
    const auto part = shard.extract(whole);
    EXPECT_EQ(part.sizes().vec(), shard.shape);
    shard.insert(made, part);
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

TEST(TensorPartition, GateAndUpAreShardedSeparately) {
  const auto stacked = counted({1, 4, 1});  // gate 0 1, up 2 3
  const auto part = gate_up_partition(2).shard(stacked.sizes(), 1, 2).extract(stacked);
  EXPECT_TRUE(at::equal(part.view(-1), at::tensor({1.0f, 3.0f})));
}

TEST(TensorPartition, FewHeadsAreOnSeveralRanks) {
  const auto weight = counted({2 * 3, 2});  // two heads of three rows
  const TensorPartition partition{.dimension = 0, .units = 2};
  EXPECT_EQ(partition.replicas(4), 2);
  EXPECT_EQ(partition.replicas(2), 1);
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_TRUE(at::equal(partition.shard(weight.sizes(), rank, 4).extract(weight), weight.narrow(0, rank / 2 * 3, 3)));
}

TEST(TensorPartition, WhatIsNotShardedIsReplicated) {
  const TensorPartition partition;
  EXPECT_TRUE(partition.shard({4, 2}, 1, 2).is_full());
  EXPECT_EQ(partition.replicas(2), 2);
}

// Experts distributed over `owners`, each sharded across `shards` neighbours: weights, and LoRA factors as PEFT stacks them.
TEST(TensorPartition, ExpertsAreDistributedAndSharded) {
  const int64_t experts = 4, width = 6, hidden = 5, rank = 3;
  const std::pair<Tensor, TensorPartition> tensors[] = {
      {counted({experts, 2 * width, hidden}), {.dimension = 1, .groups = 2, .units = width, .experts_dimension = 0}},
      {counted({experts, hidden, width}), {.dimension = 2, .units = width, .experts_dimension = 0}},
      {counted({experts * rank, hidden}), {.experts_dimension = 0}},
      {counted({2 * width, rank * experts}),
       {.dimension = 0, .groups = 2, .units = width, .experts_dimension = 1, .experts_groups = rank}},
      {counted({experts * rank, width}), {.dimension = 1, .units = width, .experts_dimension = 0}},
      {counted({hidden, rank * experts}), {.experts_dimension = 1, .experts_groups = rank}},
  };
  for (const auto& [whole, partition] : tensors)
    for (auto [owners, shards] : {std::pair<int64_t, int64_t>{2, 1}, {1, 2}, {2, 2}, {4, 3}}) {
      auto made = at::full_like(whole, -1);
      for (int64_t place = 0; place < owners * shards; ++place) {
        const auto shard = partition.shard(whole.sizes(), PartitionRank{place, owners * shards, shards});
        shard.insert(made, shard.extract(whole));
      }
      EXPECT_TRUE(at::equal(made, whole)) << whole.sizes() << " over " << owners << " x " << shards;
    }
  const auto second = tensors[3].second.shard(tensors[3].first.sizes(), PartitionRank{3, 4, 2}).extract(tensors[3].first);
  const auto by_expert = tensors[3].first.view({2, width, rank, experts});
  EXPECT_TRUE(at::equal(second.view({2, width / 2, rank, 2}), by_expert.narrow(1, 3, 3).narrow(3, 2, 2)));
}

TEST(LinearPartition, LoraIsShardedAsItsLayerIs) {
  using Style = LinearPartition::Style;
  const LinearPartition outputs{Style::column_parallel, 4}, inputs{Style::row_parallel, 4};
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
