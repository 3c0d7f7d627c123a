// How tensor parallelism shards parameters, and which gradients must be summed: one definition for training, the engine and
// files.
#pragma once
#include <string_view>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::model {

struct Block;
struct Decoder;
struct DecoderConfig;
struct Linear;

// One rank's shard of a tensor: equal runs of the flattened tensor, one every `stride` elements from `begin` on. If `count` is
// set, `count` runs make a row, and a row begins every `jump` elements.
struct TensorShard {
  std::vector<int64_t> full_shape, shape;
  int64_t begin = 0, run = 0, stride = 0, count = 0, jump = 0;

  bool is_full() const { return full_shape == shape; }
  Tensor extract(const Tensor& full) const;              // a copy of the shard of an unsharded tensor
  void insert(Tensor& full, const Tensor& shard) const;  // the shard into an unsharded tensor

 private:
  Tensor view_in(const Tensor& flat) const;
};

// A rank of the `count` ranks that together hold a tensor. Each `shards` consecutive ranks (the expert tensor parallel size)
// shard the same experts. Without experts, or if all ranks shard them, `shards` is `count`.
struct PartitionRank {
  int64_t rank, count, shards;
};

// When a rank's gradient is partial: it must then be summed over the ranks that hold the same values.
enum class PartialGradient {
  never,                   // it is complete
  with_sequence_parallel,  // each rank saw its own rows
  always,                  // each rank saw its own heads, experts or columns
};

struct TensorPartition {
  int64_t dimension = -1;          // that is sharded; -1: the tensor is replicated
  int64_t groups = 1;              // consecutive equal ranges along it, each sharded separately: gate and up of experts
  int64_t units = 0;               // indivisible units of each range: heads, or columns
  int64_t experts_dimension = -1;  // along which experts are stacked; -1: not an expert's tensor
  int64_t experts_groups = 1;      // how many times all experts are repeated along it
  bool first_rank_only = false;    // only the first rank uses it: it is added once in a sum
  PartialGradient gradient = PartialGradient::never;
  std::string_view what = {};  // of a partial gradient: "norm", "lora" …, for tests that leave one of the sums out

  TensorShard shard(at::IntArrayRef full_shape, const PartitionRank& at) const;
  TensorShard shard(at::IntArrayRef full_shape, int64_t rank, int64_t count) const {
    return shard(full_shape, {rank, count, count});
  }
  int64_t replicas(int64_t shards) const;  // ranks that hold the same shard: `shards` for a replicated tensor
  bool is_of_experts() const { return experts_dimension >= 0; }
};

// How a linear layer is sharded, with its bias and LoRA factors. A column-parallel layer (sharded outputs) has a sharded B, a
// row-parallel one (sharded inputs) a sharded A; the other factor is replicated, and its gradient is summed over the ranks.
struct LinearPartition {
  enum class Style { column_parallel, row_parallel, replicated };
  Style style = Style::replicated;
  int64_t units = 0;

  TensorPartition weight() const;
  TensorPartition bias() const;
  TensorPartition lora_a() const;
  TensorPartition lora_b() const;
};

// The linear layers of a block in a fixed order; sizes are those of the unsharded block.
std::vector<std::pair<Linear*, LinearPartition>> partitioned_linears(Block& block);
LinearPartition head_partition(const Linear& head);
// Experts are sharded along their width, so that every rank has a shard of all experts and the load is balanced.
TensorPartition gate_up_partition(int64_t width);  // [experts, 2 width, hidden]
TensorPartition down_partition(int64_t width);     // [experts, hidden, width]

struct PartitionedTensor {
  Tensor* value;
  TensorPartition partition;
};
// Every tensor of an unsharded decoder, adapters included. A tied head is the embedding.
std::vector<PartitionedTensor> partitioned_tensors(Decoder& decoder);

// Only the experts' tensors, which may have a separate layout.
std::vector<PartitionedTensor> partitioned_experts(Decoder& decoder);

// Throws UserError(usage) with valid sizes when a decoder cannot be sharded across `count` ranks. `experts_too`: experts as well.
void check_partition(const DecoderConfig& config, int64_t count, bool experts_too = true);
// The part of it that concerns linear attention, for training and generation.
void check_no_linear_attention(const DecoderConfig& config, int64_t count);
// The same for expert parallelism.
void check_expert_partition(const DecoderConfig& config, int64_t expert_parallel_size, int64_t expert_tensor_parallel_size);

}  // namespace hone::model
