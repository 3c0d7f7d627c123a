#include "hone/model/inference/tensor_parallel_decoder.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/model/causal_lm.h"
#include "hone/model/tensor_parallel/partition.h"

namespace hone::model {
namespace {

struct TensorParallelRank {
  int64_t index, count;
  at::Device device;

  Tensor part(const Tensor& whole, const TensorPartition& partition) const {
    if (!whole.defined() || (partition.first_rank_only && index > 0)) return {};
    return partition.slice(whole.sizes(), index, count).extract(whole).to(device);
  }
  Tensor all(const Tensor& whole) const { return whole.defined() ? whole.to(device) : whole; }
};

std::vector<ops::LoraWeights> sharded_adapters(const std::vector<ops::LoraWeights>& whole, const TensorParallelRank& place,
                                               const LinearPartition& partition) {
  auto list = whole;
  for (auto& adapter : list) {
    adapter.a = place.part(adapter.a, partition.lora_a());
    adapter.b = place.part(adapter.b, partition.lora_b());
  }
  return list;
}

void check_plain(const Linear& whole) {
  if (whole.quantized_base || whole.quantized)
    throw UserError(ExitCode::usage, fmt::format("{} is quantized, which tensor parallelism does not support", whole.name),
                    "leave out the tensor parallelism, or the bits");
  if (!whole.tuners.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} has an adapter that is not LoRA, which tensor parallelism does not support", whole.name),
                    "merge the adapter into the model (`merge_lora` true)");
  if (std::ranges::any_of(whole.adapters, [](const auto& adapter) { return adapter.magnitude.defined(); }))
    throw UserError(ExitCode::usage, "DoRA adapters do not support tensor parallelism",
                    "merge the adapter into the model (`merge_lora` true)");
}

void check_plain(const SparseMoe& whole) {
  if (!whole.gate_up.quantized.empty() || !whole.gate_up.adapters.empty() || !whole.down.adapters.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} is quantized or has an adapter, which tensor parallelism does not support for experts",
                                whole.gate_up.name),
                    "leave out the tensor parallelism, or merge the adapter into the model (`merge_lora` true)");
}

Linear sharded_linear(const Linear& whole, const TensorParallelRank& place, const LinearPartition& partition) {
  return {whole.name, place.part(whole.weight, partition.weight()), place.part(whole.bias, partition.bias()),
          sharded_adapters(whole.adapters, place, partition)};
}

Norm norm_on(const Norm& whole, const TensorParallelRank& place) {
  return {whole.name, place.all(whole.weight), whole.eps, whole.zero_centered, whole.scale};
}

SparseMoe sharded_moe(const SparseMoe& whole, const TensorParallelRank& place) {
  auto slice = whole;
  const int64_t width = whole.down.weight.size(2);
  slice.gate_up.weight = place.part(whole.gate_up.weight, gate_up_partition(width));
  slice.down.weight = place.part(whole.down.weight, down_partition(width));
  return slice;
}

// They are only read here.
auto linears_of(const Block& whole) { return partitioned_linears(const_cast<Block&>(whole)); }

Block sharded_block(const Block& whole, const TensorParallelRank& place, int64_t layers) {
  Block slice;
  slice.name = whole.name;
  slice.layer = place.index * layers + whole.layer;
  slice.shape = whole.shape;
  slice.shape.heads /= place.count, slice.shape.kv_heads /= place.count;
  slice.input_norm = norm_on(whole.input_norm, place);
  slice.pre_mlp_norm = norm_on(whole.pre_mlp_norm, place);
  if (whole.post_attention_norm)
    slice.post_attention_norm = norm_on(*whole.post_attention_norm, place),
    slice.post_mlp_norm = norm_on(*whole.post_mlp_norm, place);
  slice.uses_local_rope = whole.uses_local_rope, slice.residual_scale = whole.residual_scale;
  const auto& a = whole.attention;
  if (a.q_norm) slice.attention.q_norm = norm_on(*a.q_norm, place), slice.attention.k_norm = norm_on(*a.k_norm, place);
  if (whole.mlp) slice.mlp.emplace().activation = whole.mlp->activation;
  if (whole.mixture) slice.mixture = sharded_moe(*whole.mixture, place);
  if (whole.shared_gate) slice.shared_gate.emplace();
  const auto to = partitioned_linears(slice);
  for (size_t i = 0; const auto& [layer, partition] : linears_of(whole))
    *to[i++].first = sharded_linear(*layer, place, partition);
  return slice;
}

Embedding embedding_on(const Embedding& whole, const TensorParallelRank& place) {
  Embedding copy{whole.name, place.all(whole.weight), whole.adapters, whole.scale};
  for (auto& adapter : copy.adapters) adapter.a = place.all(adapter.a), adapter.b = place.all(adapter.b);
  return copy;
}

// Block by block: a shard that is replaced needs room for one block more.
void shard_into(Decoder& slice, const Decoder& whole, const TensorParallelRank& place) {
  slice.embedding = embedding_on(whole.embedding, place);
  slice.blocks.resize(whole.blocks.size());
  for (size_t i = 0; i < whole.blocks.size(); ++i) slice.blocks[i] = sharded_block(whole.blocks[i], place, whole.config.layers);
  slice.norm = norm_on(whole.norm, place);
  slice.head = sharded_linear(whole.head, place, head_partition(whole.head));
}

void shard_adapters_into(Decoder& slice, const Decoder& whole, const TensorParallelRank& place) {
  slice.embedding.adapters = embedding_on(whole.embedding, place).adapters;
  slice.head.adapters = sharded_adapters(whole.head.adapters, place, head_partition(whole.head));
  for (size_t i = 0; i < slice.blocks.size(); ++i) {
    const auto to = partitioned_linears(slice.blocks[i]);
    for (size_t j = 0; const auto& [layer, partition] : linears_of(whole.blocks[i]))
      to[j++].first->adapters = sharded_adapters(layer->adapters, place, partition);
  }
}

template <class Shard>
void for_each_shard(CausalLM& model, Shard shard) {
  HONE_CHECK(model.is_sliced(), "the model is not tensor parallel");
  TensorParallelDecoder::check_layers(model.decoder());
  at::NoGradGuard no_grad;
  const auto slices = model.computing_decoders();
  for (size_t i = 0; i < slices.size(); ++i)
    shard(*slices[i], model.decoder(),
          TensorParallelRank{static_cast<int64_t>(i), static_cast<int64_t>(slices.size()), slices[i]->norm.weight.device()});
}

std::string numbers_that_divide(const std::vector<int64_t>& sizes) {
  int64_t common = 0;
  for (auto size : sizes) common = std::gcd(common, size);
  std::string list;
  for (int64_t i = 1; i <= common; ++i)
    if (common % i == 0) list += fmt::format("{}{}", list.empty() ? "" : ", ", i);
  return list;
}

}  // namespace

void apply_tensor_parallel(CausalLM& model, const std::vector<at::Device>& devices) {
  model.set_slices(std::make_unique<TensorParallelDecoder>(model.decoder(), devices));
}

void reshard(CausalLM& model) { for_each_shard(model, shard_into); }
void reshard_adapters(CausalLM& model) { for_each_shard(model, shard_adapters_into); }

void TensorParallelDecoder::check(const DecoderConfig& config, size_t slices) {
  const auto& a = config.attention;
  std::vector<int64_t> sizes = {a.heads, a.kv_heads};
  auto parts = fmt::format("{} heads, {} key heads", a.heads, a.kv_heads);
  auto add = [&](int64_t width, const char* of) {
    if (width == 0) return;
    sizes.push_back(width);
    parts += fmt::format(", {} of {}", of, width);
  };
  bool dense = false, mixed = false;
  for (int64_t layer = 0; layer < config.layers; ++layer) (config.has_experts(layer) ? mixed : dense) = true;
  if (dense) add(config.intermediate_size, "an MLP");
  if (mixed) add(config.experts.width, "experts"), add(config.experts.shared_expert_intermediate_size, "a shared expert");
  if (std::ranges::all_of(sizes, [&](int64_t size) { return size % static_cast<int64_t>(slices) == 0; })) return;
  throw UserError(ExitCode::usage, fmt::format("{} slices of {}", slices, parts),
                  "numbers that divide all of them: " + numbers_that_divide(sizes));
}

void TensorParallelDecoder::check_layers(const Decoder& whole) {
  check_plain(whole.head);
  for (const auto& block : whole.blocks) {
    if (block.mixture) check_plain(*block.mixture);
    for (const auto& [layer, partition] : linears_of(block)) check_plain(*layer);
  }
}

std::vector<TensorParallelDecoder::AdapterVersion> TensorParallelDecoder::adapters_of(const Decoder& whole) {
  std::vector<AdapterVersion> list;
  auto add = [&](const std::vector<ops::LoraWeights>& adapters) {
    for (const auto& adapter : adapters) list.push_back({adapter.a, adapter.active});
    list.push_back({{}, false});
  };
  add(whole.embedding.adapters), add(whole.head.adapters);
  for (const auto& block : whole.blocks)
    for (const auto& [layer, partition] : linears_of(block)) add(layer->adapters);
  return list;
}

TensorParallelDecoder::TensorParallelDecoder(const Decoder& whole, const std::vector<at::Device>& devices)
    : team_(devices), followed_(adapters_of(whole)) {
  check(whole.config, devices.size());
  check_layers(whole);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < devices.size(); ++i)
    shard_into(ranks_.emplace_back(Decoder{.config = whole.config}), whole,
               {static_cast<int64_t>(i), static_cast<int64_t>(devices.size()), devices[i]});
}

std::vector<at::Device> TensorParallelDecoder::block_devices() const {
  std::vector<at::Device> devices;
  for (const auto& slice : ranks_)
    for (const auto& block : slice.blocks) devices.push_back(block.device());
  return devices;
}

void TensorParallelDecoder::sync_adapters(const Decoder& whole) {
  std::lock_guard lock(following_);
  auto present = adapters_of(whole);
  if (present == followed_) return;
  check_layers(whole);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < ranks_.size(); ++i)
    shard_adapters_into(ranks_[i], whole,
                        {static_cast<int64_t>(i), static_cast<int64_t>(ranks_.size()), ranks_[i].norm.weight.device()});
  followed_ = std::move(present);
}

Tensor TensorParallelDecoder::hidden(const ForwardInput& input,
                                     const std::function<std::shared_ptr<ForwardContext>(at::Device)>& forward_context_on) {
  Tensor first;
  team_.run([&](size_t i) {
    const auto& decoder = ranks_[i];
    const auto device = decoder.norm.weight.device();
    auto pass = forward_context_on(device);
    pass->region = &team_.region(i);
    const auto encoder = input.encoder.to(device);
    auto x_th = input.embeddings_th.defined() ? input.embeddings_th.to(device)
                                              : decoder.embedding(input.tokens_t.to(device), input.adapters);
    x_th = encoder.replace_rows(x_th);
    for (size_t block = 0; block < decoder.blocks.size(); ++block)
      x_th = encoder.add_deepstack(block_forward(decoder.blocks[block], x_th, *pass), block);
    x_th = decoder.norm(x_th);
    if (i == 0) first = x_th;
  });
  return first;
}

Tensor TensorParallelDecoder::logits(const Tensor& hidden_th, const LinearContext& mode) {
  TensorList parts(ranks_.size());
  team_.run([&](size_t i) { parts[i] = ranks_[i].head(hidden_th.to(ranks_[i].norm.weight.device()), mode); });
  for (auto& part : parts) part = part.to(hidden_th.device());
  return at::cat(parts, 1);
}

}  // namespace hone::model
