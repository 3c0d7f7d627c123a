#include "hone/model/tensor_parallel/partition.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::model {
namespace {

using Style = LinearPartition::Style;

TensorPartition along(int64_t dimension, int64_t units) { return {.dimension = dimension, .units = units}; }
TensorPartition replicated(PartialGradient gradient, std::string_view what) { return {.gradient = gradient, .what = what}; }

void add_linear(std::vector<PartitionedTensor>& list, Linear& layer, const LinearPartition& partition) {
  list.push_back({&layer.weight, partition.weight()});
  if (layer.bias.defined()) list.push_back({&layer.bias, partition.bias()});
  for (auto& adapter : layer.adapters) {
    list.push_back({&adapter.a, partition.lora_a()});
    list.push_back({&adapter.b, partition.lora_b()});
  }
}

// PEFT stacks the factors of all experts: a [experts * r, in], b [out, r * experts].
void add_experts(std::vector<PartitionedTensor>& list, SparseMoe& moe) {
  const int64_t width = moe.down.weight.size(2), experts = moe.down.weight.size(0);
  const auto factor = replicated(PartialGradient::always, "experts");
  auto add = [&](Tensor& value, TensorPartition partition, int64_t dimension, int64_t groups) {
    partition.experts_dimension = dimension;
    partition.experts_groups = groups;
    list.push_back({&value, partition});
  };
  add(moe.gate_up.weight, gate_up_partition(width), 0, 1);
  for (auto& adapter : moe.gate_up.adapters) {
    add(adapter.a, factor, 0, 1);
    add(adapter.b, {.dimension = 0, .groups = 2, .units = width}, 1, adapter.b.size(1) / experts);
  }
  add(moe.down.weight, down_partition(width), 0, 1);
  for (auto& adapter : moe.down.adapters) {
    add(adapter.a, along(1, width), 0, 1);
    add(adapter.b, factor, 1, adapter.b.size(1) / experts);
  }
}

void add_norm(std::vector<PartitionedTensor>& list, std::optional<Norm>& norm, PartialGradient gradient, std::string_view what) {
  if (norm) list.push_back({&norm->weight, replicated(gradient, what)});
}

// Every rank encodes all media; if the ranks split the rows, each gets the gradients of the features of its own rows.
void add_tower(std::vector<PartitionedTensor>& list, const Module& tower) {
  const auto partition = replicated(PartialGradient::with_sequence_parallel, "tower");
  for (const auto& parameter : tower.parameters()) list.push_back({parameter.value, partition});
  for (const auto& factor : tower.adapter_parameters()) list.push_back({factor.value, partition});
}

void add_block(std::vector<PartitionedTensor>& list, Block& block) {
  for (auto& [layer, partition] : partitioned_linears(block)) add_linear(list, *layer, partition);
  if (block.moe) add_experts(list, *block.moe);
  // Under sequence parallelism rows are split; heads always are.
  const auto row = replicated(PartialGradient::with_sequence_parallel, "norm");
  list.push_back({&block.input_norm.weight, row});
  list.push_back({&block.pre_mlp_norm.weight, row});
  add_norm(list, block.post_attention_norm, row.gradient, row.what);
  add_norm(list, block.post_mlp_norm, row.gradient, row.what);
  add_norm(list, block.attention.q_norm, PartialGradient::always, "head_norm");
  add_norm(list, block.attention.k_norm, PartialGradient::always, "head_norm");
}

// The indices of a shard along an axis: [first, last) of each of `groups` equal ranges.
struct Taken {
  int64_t groups, first, last;
};

TensorShard make_shard(at::IntArrayRef full_shape, const std::vector<Taken>& taken) {
  struct Level {
    int64_t count, stride;
  };
  TensorShard shard{full_shape.vec(), full_shape.vec()};
  std::vector<Level> levels{{1, 1}};  // innermost first
  auto add = [&](int64_t count, int64_t stride) {
    if (auto& inner = levels.back(); stride == inner.count * inner.stride)
      inner.count *= count;
    else if (count > 1)
      levels.push_back({count, stride});
  };
  int64_t inner = 1;
  for (size_t axis = full_shape.size(); axis-- > 0; inner *= full_shape[axis]) {
    const auto& [groups, first, last] = taken[axis];
    shard.shape[axis] = groups * (last - first);
    shard.begin += first * inner;
    add(last - first, inner);
    add(groups, full_shape[axis] / groups * inner);
  }
  HONE_CHECK(levels.size() <= 3, "a shard of a tensor has {} strides", levels.size());
  shard.run = levels[0].count;
  shard.stride = levels.size() > 1 ? levels[1].stride : inner;
  if (levels.size() > 2) shard.count = levels[1].count, shard.jump = levels[2].stride;
  return shard;
}

std::string divisors_of(int64_t size) {
  std::string list;
  for (int64_t i = 1; i <= size; ++i)
    if (size % i == 0) list += fmt::format("{}{}", list.empty() ? "" : ", ", i);
  return list;
}

}  // namespace

Tensor TensorShard::extract(const Tensor& full) const {
  if (is_full()) return full;
  return view_in(full.contiguous().view(-1)).reshape(shape).clone();
}

void TensorShard::insert(Tensor& full, const Tensor& shard) const {
  auto view = view_in(full.view(-1));
  view.copy_(shard.reshape(view.sizes()));
}

Tensor TensorShard::view_in(const Tensor& flat) const {
  const int64_t runs = c10::multiply_integers(shape) / run, in_row = count > 0 ? count : runs,
                first = flat.storage_offset() + begin;
  return flat.as_strided({runs / in_row, in_row, run}, {jump, stride, 1}, first);
}

TensorShard TensorPartition::shard(at::IntArrayRef full_shape, const PartitionRank& at) const {
  std::vector<Taken> taken(full_shape.size());
  for (size_t axis = 0; axis < full_shape.size(); ++axis) taken[axis] = {1, 0, full_shape[axis]};
  if (dimension >= 0) {
    const auto axis = static_cast<size_t>(dimension);
    const int64_t unit = full_shape[axis] / groups / units, rank = at.rank % at.shards;
    const int64_t first = rank * units / at.shards, last = std::max((rank + 1) * units / at.shards, first + 1);
    taken[axis] = {groups, first * unit, last * unit};
  }
  if (is_of_experts() && at.shards < at.count) {
    const auto axis = static_cast<size_t>(experts_dimension);
    const int64_t each = full_shape[axis] / experts_groups / (at.count / at.shards), number = at.rank / at.shards;
    taken[axis] = {experts_groups, number * each, (number + 1) * each};
  }
  return make_shard(full_shape, taken);
}

int64_t TensorPartition::replicas(int64_t shards) const {
  if (dimension < 0) return shards;
  return units < shards ? shards / units : 1;
}

TensorPartition LinearPartition::weight() const {
  if (style == Style::replicated) return replicated(PartialGradient::always, "router");
  auto partition = along(style == Style::column_parallel ? 0 : 1, units);
  if (style == Style::column_parallel)
    partition.gradient = PartialGradient::always, partition.what = "kv_head";  // for replicas only
  return partition;
}

TensorPartition LinearPartition::bias() const {
  if (style != Style::row_parallel) return weight();
  return {.first_rank_only = true};
}

TensorPartition LinearPartition::lora_a() const {
  return style == Style::row_parallel ? along(1, units) : replicated(PartialGradient::always, "lora");
}

TensorPartition LinearPartition::lora_b() const {
  return style == Style::column_parallel ? weight() : replicated(PartialGradient::always, "lora");
}

std::vector<std::pair<Linear*, LinearPartition>> partitioned_linears(Block& block) {
  auto& a = block.attention;
  const int64_t heads = block.shape.heads, kv_heads = block.shape.kv_heads;
  std::vector<std::pair<Linear*, LinearPartition>> list = {{&a.q, {Style::column_parallel, heads}},
                                                           {&a.k, {Style::column_parallel, kv_heads}},
                                                           {&a.v, {Style::column_parallel, kv_heads}},
                                                           {&a.o, {Style::row_parallel, heads}}};
  if (block.mlp) {
    const auto& down = block.mlp->down.weight;
    const int64_t width = down.defined() ? down.size(1) : 0;  // of a block that is not loaded yet: unused
    list.insert(list.end(), {{&block.mlp->gate, {Style::column_parallel, width}},
                             {&block.mlp->up, {Style::column_parallel, width}},
                             {&block.mlp->down, {Style::row_parallel, width}}});
  }
  if (block.moe) list.push_back({&block.moe->router, {}});
  if (block.shared_gate) list.push_back({&*block.shared_gate, {}});
  return list;
}

LinearPartition head_partition(const Linear& head) { return {Style::column_parallel, head.weight.size(0)}; }
TensorPartition gate_up_partition(int64_t width) { return {.dimension = 1, .groups = 2, .units = width}; }
TensorPartition down_partition(int64_t width) { return along(2, width); }

std::vector<PartitionedTensor> partitioned_tensors(Decoder& decoder) {
  std::vector<PartitionedTensor> list;
  auto& embedding = decoder.embedding;
  const int64_t words = embedding.weight.size(0);
  list.push_back({&embedding.weight, along(0, words)});
  for (auto& adapter : embedding.adapters) {
    list.push_back({&adapter.a, along(1, words)});
    list.push_back({&adapter.b, replicated(PartialGradient::always, "lora")});
  }
  for (auto& block : decoder.blocks) add_block(list, block);
  list.push_back({&decoder.norm.weight, replicated(PartialGradient::with_sequence_parallel, "norm")});
  // Scores of full texts are small: every rank has all of them.
  auto head = decoder.config.num_labels > 0 ? LinearPartition() : head_partition(decoder.head);
  std::vector<PartitionedTensor> of_head;
  add_linear(of_head, decoder.head, head);
  if (decoder.config.tie_word_embeddings) of_head.erase(of_head.begin());
  list.insert(list.end(), of_head.begin(), of_head.end());
  if (decoder.value_head) add_linear(list, *decoder.value_head, LinearPartition());
  if (decoder.vision) add_tower(list, decoder.vision->module());
  if (decoder.audio) add_tower(list, decoder.audio->module());
  return list;
}

std::vector<PartitionedTensor> partitioned_experts(Decoder& decoder) {
  std::vector<PartitionedTensor> list;
  for (auto& block : decoder.blocks)
    if (block.moe) add_experts(list, *block.moe);
  return list;
}

void check_expert_partition(const DecoderConfig& config, int64_t expert_parallel_size, int64_t expert_tensor_parallel_size) {
  const auto& experts = config.experts;
  if (experts.count % expert_parallel_size != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("{} experts cannot be distributed over {} ranks", experts.count, expert_parallel_size),
                    "sizes of `expert_parallel_size` that divide them: " + divisors_of(experts.count));
  if (experts.width % expert_tensor_parallel_size != 0)
    throw UserError(
        ExitCode::usage,
        fmt::format("the {} columns of an expert cannot be sharded across {} ranks", experts.width, expert_tensor_parallel_size),
        "sizes of `expert_tensor_parallel_size` that divide them: " + divisors_of(experts.width));
}

void check_no_linear_attention(const DecoderConfig& config, int64_t count) {
  if (config.linear_attention)
    throw UserError(
        ExitCode::usage,
        fmt::format("layers of linear attention (gated delta nets) cannot be sharded across {} tensor parallel ranks", count),
        "take a tensor parallel size of 1; pipeline and expert parallelism, ZeRO and FSDP distribute training, "
        "`vllm_pipeline_parallel_size` and `device_map` generation");
}

void check_partition(const DecoderConfig& config, int64_t count, bool experts_too) {
  check_no_linear_attention(config, count);
  const auto& a = config.attention;
  auto refuse = [&](const std::string& what, const std::string& fit) {
    throw UserError(ExitCode::usage, fmt::format("{} cannot be sharded across {} tensor parallel ranks", what, count), fit);
  };
  auto divides = [&](int64_t size, const char* what) {
    if (size % count != 0) refuse(fmt::format("{} {}", size, what), "sizes that divide it: " + divisors_of(size));
  };
  divides(a.heads, "attention heads");
  if (a.kv_heads % count != 0 && count % a.kv_heads != 0)
    refuse(fmt::format("{} key and value heads", a.kv_heads), "take a size that divides them, or a multiple of them");
  bool dense = false, mixed = false;
  for (int64_t layer = 0; layer < config.layers; ++layer) (config.has_experts(layer) ? mixed : dense) = true;
  if (dense) divides(config.intermediate_size, "columns of an MLP");
  if (mixed && experts_too) divides(config.experts.width, "columns of an expert");
  if (mixed && config.experts.shared_expert_intermediate_size > 0)
    divides(config.experts.shared_expert_intermediate_size, "columns of a shared expert");
  if (config.vocab_size < count) refuse(fmt::format("a vocabulary of {}", config.vocab_size), "take fewer ranks");
}

}  // namespace hone::model
