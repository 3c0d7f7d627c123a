// Which part of a parameter each rank of a tensor parallel group holds, and what is to be done with its gradient: the one
// definition for training, the engine and files.
#pragma once
#include <string_view>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::model {

struct Block;
struct Decoder;
struct Linear;

// One rank's part of a tensor: equal runs of the whole, flattened, one every `stride` elements from `begin` on. Where `count` is
// set so many runs make a row of them, and a row begins every `jump` elements.
struct TensorSlice {
  std::vector<int64_t> whole, shape;
  int64_t begin = 0, run = 0, stride = 0, count = 0, jump = 0;

  bool is_whole() const { return whole == shape; }
  Tensor cut(const Tensor& values) const;                // of the whole, a copy of the part
  void paste(Tensor& values, const Tensor& part) const;  // into the whole

 private:
  Tensor place_in(const Tensor& flat) const;
};

// A rank of those that hold a tensor together: neighbors, `cut` of them, cut the same experts; each such group has its own
// experts. Where there are no experts, or all ranks cut them, `cut` is `count`.
struct PartitionRank {
  int64_t rank, count, cut;
};

// What a rank's gradient lacks until it is summed over the ranks that hold the same values.
enum class PartialGradient {
  never,                   // it is complete
  with_sequence_parallel,  // each rank saw its own rows
  always,                  // each rank saw its own heads, experts or columns
};

struct TensorPartition {
  int64_t dimension = -1;          // that is cut; -1: every rank holds all of it
  int64_t groups = 1;              // equal parts one behind another along it, each cut by itself: gate and up of experts
  int64_t units = 0;               // how many pieces each of them has that stay whole: heads, or columns
  int64_t experts_dimension = -1;  // along which experts lie; -1: the tensor belongs to none
  int64_t experts_groups = 1;      // times that all experts follow one another along it
  bool first_rank_only = false;    // computed with on the first rank alone: it is added once in a sum
  PartialGradient gradient = PartialGradient::never;
  std::string_view what = {};  // of a partial gradient: "norm", "lora" …, for tests that leave one of the sums out

  TensorSlice slice(at::IntArrayRef whole, const PartitionRank& place) const;
  TensorSlice slice(at::IntArrayRef whole, int64_t rank, int64_t count) const { return slice(whole, {rank, count, count}); }
  int64_t replicas(int64_t cut) const;  // neighbors that hold the same part: `cut` where nothing is cut
  bool is_of_experts() const { return experts_dimension >= 0; }
};

// How a linear layer is cut, with its bias and its low-rank updates. Updates end in the state of the product they are added to:
// behind cut outputs the second factor is cut, before cut inputs the first one is; the other factor is whole, and its gradient
// is a sum over the ranks.
struct LinearPartition {
  enum class Cut { outputs, inputs, none };
  Cut cut = Cut::none;
  int64_t units = 0;

  TensorPartition weight() const;
  TensorPartition bias() const;
  TensorPartition lora_a() const;
  TensorPartition lora_b() const;
};

// The linear layers of a block in one order, whatever it has; sizes are those of the whole block.
std::vector<std::pair<Linear*, LinearPartition>> partitioned_linears(Block& block);
LinearPartition head_partition(const Linear& head);
// Experts are cut along their width, so that every rank has a part of all of them and they are equally busy.
TensorPartition gate_up_partition(int64_t width);  // [experts, 2 width, hidden]
TensorPartition down_partition(int64_t width);     // [experts, hidden, width]

struct PartitionedTensor {
  Tensor* value;
  TensorPartition partition;
};
// Every tensor of a whole decoder, adapters included. A tied head is the embedding.
std::vector<PartitionedTensor> partitioned_tensors(Decoder& decoder);

// Those of them that are experts', which may be spread in a way of their own.
std::vector<PartitionedTensor> partitioned_experts(Decoder& decoder);

// Throws UserError(usage) that names the sizes when a decoder cannot be cut for so many ranks. `experts_too`: they are cut alike.
void check_partition(const Decoder& decoder, int64_t count, bool experts_too = true);
// The same of experts that are dealt out over `ranks` and cut over `cut` ranks each.
void check_expert_partition(const Decoder& decoder, int64_t ranks, int64_t cut);

}  // namespace hone::model
