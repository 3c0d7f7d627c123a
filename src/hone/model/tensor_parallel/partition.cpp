#include "hone/model/tensor_parallel/partition.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::model {
namespace {

using Cut = LinearPartition::Cut;

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
void add_experts(std::vector<PartitionedTensor>& list, SparseMoe& mixture) {
  const int64_t width = mixture.down.weight.size(2);
  list.push_back({&mixture.gate_up.weight, gate_up_partition(width)});
  for (auto& adapter : mixture.gate_up.adapters) {
    list.push_back({&adapter.a, replicated(PartialGradient::always, "experts")});
    list.push_back({&adapter.b, {.dimension = 0, .groups = 2, .units = width}});
  }
  list.push_back({&mixture.down.weight, down_partition(width)});
  for (auto& adapter : mixture.down.adapters) {
    list.push_back({&adapter.a, along(1, width)});
    list.push_back({&adapter.b, replicated(PartialGradient::always, "experts")});
  }
}

void add_norm(std::vector<PartitionedTensor>& list, std::optional<Norm>& norm, PartialGradient gradient, std::string_view what) {
  if (norm) list.push_back({&norm->weight, replicated(gradient, what)});
}

void add_block(std::vector<PartitionedTensor>& list, Block& block) {
  for (auto& [layer, partition] : partitioned_linears(block)) add_linear(list, *layer, partition);
  if (block.mixture) add_experts(list, *block.mixture);
  // Rows are only a part of all under sequence parallelism; heads always are.
  const auto row = replicated(PartialGradient::with_sequence_parallel, "norm");
  list.push_back({&block.input_norm.weight, row});
  list.push_back({&block.pre_mlp_norm.weight, row});
  add_norm(list, block.post_attention_norm, row.gradient, row.what);
  add_norm(list, block.post_mlp_norm, row.gradient, row.what);
  add_norm(list, block.attention.q_norm, PartialGradient::always, "head_norm");
  add_norm(list, block.attention.k_norm, PartialGradient::always, "head_norm");
}

std::string divisors_of(int64_t size) {
  std::string list;
  for (int64_t i = 1; i <= size; ++i)
    if (size % i == 0) list += fmt::format("{}{}", list.empty() ? "" : ", ", i);
  return list;
}

}  // namespace

Tensor TensorSlice::cut(const Tensor& values) const {
  if (is_whole()) return values;
  const auto flat = values.contiguous().view(-1);
  int64_t size = 1;
  for (auto length : shape) size *= length;
  return flat.as_strided({size / run, run}, {stride, 1}, flat.storage_offset() + begin).reshape(shape).clone();
}

void TensorSlice::paste(Tensor& values, const Tensor& part) const {
  auto flat = values.view(-1);
  flat.as_strided({part.numel() / run, run}, {stride, 1}, flat.storage_offset() + begin).copy_(part.reshape({-1, run}));
}

TensorSlice TensorPartition::slice(at::IntArrayRef whole, int64_t rank, int64_t count) const {
  TensorSlice part{whole.vec(), whole.vec()};
  const auto size = static_cast<int64_t>(c10::multiply_integers(whole));
  part.run = part.stride = size;
  if (dimension < 0) return part;
  const auto axis = static_cast<size_t>(dimension);
  const int64_t inner = c10::multiply_integers(whole.slice(axis + 1)), length = whole[axis] / groups, unit = length / units;
  const int64_t first = rank * units / count, last = std::max((rank + 1) * units / count, first + 1);
  part.shape[axis] = groups * (last - first) * unit;
  part.begin = first * unit * inner;
  part.run = (last - first) * unit * inner;
  part.stride = length * inner;
  return part;
}

int64_t TensorPartition::replicas(int64_t count) const {
  if (dimension < 0) return count;
  return units < count ? count / units : 1;
}

TensorPartition LinearPartition::weight() const {
  if (cut == Cut::none) return replicated(PartialGradient::always, "router");
  auto part = along(cut == Cut::outputs ? 0 : 1, units);
  if (cut == Cut::outputs) part.gradient = PartialGradient::always, part.what = "kv_head";  // of replicas alone
  return part;
}

TensorPartition LinearPartition::bias() const {
  if (cut != Cut::inputs) return weight();
  return {.first_rank_only = true};
}

TensorPartition LinearPartition::lora_a() const {
  return cut == Cut::inputs ? along(1, units) : replicated(PartialGradient::always, "lora");
}

TensorPartition LinearPartition::lora_b() const {
  return cut == Cut::outputs ? weight() : replicated(PartialGradient::always, "lora");
}

std::vector<std::pair<Linear*, LinearPartition>> partitioned_linears(Block& block) {
  auto& a = block.attention;
  const int64_t heads = block.shape.heads, kv_heads = block.shape.kv_heads;
  std::vector<std::pair<Linear*, LinearPartition>> list = {{&a.q, {Cut::outputs, heads}},
                                                           {&a.k, {Cut::outputs, kv_heads}},
                                                           {&a.v, {Cut::outputs, kv_heads}},
                                                           {&a.o, {Cut::inputs, heads}}};
  if (block.mlp) {
    const auto& down = block.mlp->down.weight;
    const int64_t width = down.defined() ? down.size(1) : 0;  // of a block yet to be filled: nobody asks
    list.insert(list.end(), {{&block.mlp->gate, {Cut::outputs, width}},
                             {&block.mlp->up, {Cut::outputs, width}},
                             {&block.mlp->down, {Cut::inputs, width}}});
  }
  if (block.mixture) list.push_back({&block.mixture->router, {}});
  if (block.shared_gate) list.push_back({&*block.shared_gate, {}});
  return list;
}

LinearPartition head_partition(const Linear& head) { return {Cut::outputs, head.weight.size(0)}; }
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
  auto head = head_partition(decoder.head);
  std::vector<PartitionedTensor> of_head;
  add_linear(of_head, decoder.head, head);
  if (decoder.config.tie_word_embeddings) of_head.erase(of_head.begin());
  list.insert(list.end(), of_head.begin(), of_head.end());
  return list;
}

void check_partition(const Decoder& decoder, int64_t count) {
  const auto& config = decoder.config;
  const auto& a = config.attention;
  auto refuse = [&](const std::string& what, const std::string& fit) {
    throw UserError(ExitCode::usage, fmt::format("{} cannot be cut for {} tensor parallel ranks", what, count), fit);
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
  if (mixed) divides(config.experts.width, "columns of an expert");
  if (mixed && config.experts.shared_expert_intermediate_size > 0)
    divides(config.experts.shared_expert_intermediate_size, "columns of a shared expert");
  if (config.vocab_size < count) refuse(fmt::format("a vocabulary of {}", config.vocab_size), "take fewer ranks");
}

}  // namespace hone::model
