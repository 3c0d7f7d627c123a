#include "hone/model/inference/tensor_parallel_decoder.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/model/causal_lm.h"
#include "hone/model/forward_context.h"
#include "hone/model/tensor_parallel/partition.h"
#include "hone/ops/linear/dora_norm.h"

namespace hone::model {
namespace {

struct TensorParallelRank {
  int64_t index, count;
  at::Device device;

  Tensor part(const Tensor& whole, const TensorPartition& partition) const {
    if (!whole.defined() || (partition.first_rank_only && index > 0)) return {};
    return partition.shard(whole.sizes(), index, count).extract(whole).to(device);
  }
  Tensor all(const Tensor& whole) const { return whole.defined() ? whole.to(device) : whole; }
};

// DoRA divides magnitudes by norms over all inputs, of which a row-parallel shard has a part. Its magnitudes are scaled so that
// they and the shard's own norms have the ratio of the unsharded layer; outputs of the shards then add up. In 16 bits, ratios and
// norms are rounded as in the layer's product, and their product in float32 is exact.
Tensor sharded_magnitude(const ops::LoraWeights& whole, const Tensor& whole_weight, const ops::LoraWeights& shard,
                         const Tensor& weight, const TensorParallelRank& place, const LinearPartition& partition) {
  const auto part = [&](const Tensor& values_o) { return place.part(values_o.unsqueeze(1), partition.lora_b()).squeeze(1); };
  if (partition.style != LinearPartition::Style::row_parallel) return part(whole.magnitude);
  const auto dtype = whole.a.scalar_type();
  const auto ratio_o = (whole.magnitude / ops::updated_norm(whole_weight, whole, dtype)).to(dtype);
  return part(ratio_o).to(at::kFloat) * ops::updated_norm(weight, shard, dtype);
}

// `weight` is the shard of `whole`'s.
std::vector<ops::LoraWeights> sharded_adapters(const Linear& whole, const Tensor& weight, const TensorParallelRank& place,
                                               const LinearPartition& partition) {
  auto list = whole.adapters;
  for (size_t i = 0; i < list.size(); ++i) {
    auto& adapter = list[i];
    adapter.a = place.part(adapter.a, partition.lora_a());
    adapter.b = place.part(adapter.b, partition.lora_b());
    if (adapter.magnitude.defined())
      adapter.magnitude = sharded_magnitude(whole.adapters[i], whole.weight, adapter, weight, place, partition);
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
}

void check_plain(const SparseMoe& whole) {
  if (!whole.gate_up.quantized.empty() || !whole.gate_up.adapters.empty() || !whole.down.adapters.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} is quantized or has an adapter, which tensor parallelism does not support for experts",
                                whole.gate_up.name),
                    "leave out the tensor parallelism, or merge the adapter into the model (`merge_lora` true)");
}

Linear sharded_linear(const Linear& whole, const TensorParallelRank& place, const LinearPartition& partition) {
  const auto weight = place.part(whole.weight, partition.weight());
  return {whole.name, weight, place.part(whole.bias, partition.bias()), sharded_adapters(whole, weight, place, partition)};
}

Norm norm_on(const Norm& whole, const TensorParallelRank& place) {
  return {whole.name, place.all(whole.weight), whole.eps, whole.zero_centered, whole.scale};
}

SparseMoe sharded_moe(const SparseMoe& whole, const TensorParallelRank& place) {
  auto shard = whole;
  const int64_t width = whole.down.weight.size(2);
  shard.gate_up.weight = place.part(whole.gate_up.weight, gate_up_partition(width));
  shard.down.weight = place.part(whole.down.weight, down_partition(width));
  return shard;
}

// They are only read here.
auto linears_of(const Block& whole) { return partitioned_linears(const_cast<Block&>(whole)); }

Block sharded_block(const Block& whole, const TensorParallelRank& place, int64_t layers) {
  Block shard;
  shard.name = whole.name;
  shard.layer = place.index * layers + whole.layer;
  shard.shape = whole.shape;
  shard.shape.heads /= place.count, shard.shape.kv_heads /= place.count;
  shard.input_norm = norm_on(whole.input_norm, place);
  shard.pre_mlp_norm = norm_on(whole.pre_mlp_norm, place);
  if (whole.post_attention_norm)
    shard.post_attention_norm = norm_on(*whole.post_attention_norm, place),
    shard.post_mlp_norm = norm_on(*whole.post_mlp_norm, place);
  shard.uses_local_rope = whole.uses_local_rope, shard.residual_scale = whole.residual_scale;
  const auto& a = whole.attention;
  if (a.q_norm) shard.attention.q_norm = norm_on(*a.q_norm, place), shard.attention.k_norm = norm_on(*a.k_norm, place);
  if (whole.mlp) shard.mlp.emplace().activation = whole.mlp->activation;
  if (whole.moe) shard.moe = sharded_moe(*whole.moe, place);
  if (whole.shared_gate) shard.shared_gate.emplace();
  const auto to = partitioned_linears(shard);
  for (size_t i = 0; const auto& [layer, partition] : linears_of(whole))
    *to[i++].first = sharded_linear(*layer, place, partition);
  return shard;
}

Embedding embedding_on(const Embedding& whole, const TensorParallelRank& place) {
  Embedding copy{whole.name, place.all(whole.weight), whole.adapters, whole.scale};
  for (auto& adapter : copy.adapters) adapter.a = place.all(adapter.a), adapter.b = place.all(adapter.b);
  return copy;
}

// Block by block: a shard that is replaced needs room for one block more.
void shard_into(Decoder& shard, const Decoder& whole, const TensorParallelRank& place) {
  shard.embedding = embedding_on(whole.embedding, place);
  shard.blocks.resize(whole.blocks.size());
  for (size_t i = 0; i < whole.blocks.size(); ++i) shard.blocks[i] = sharded_block(whole.blocks[i], place, whole.config.layers);
  shard.norm = norm_on(whole.norm, place);
  shard.head = sharded_linear(whole.head, place, head_partition(whole.head));
}

void shard_adapters_into(Decoder& shard, const Decoder& whole, const TensorParallelRank& place) {
  shard.embedding.adapters = embedding_on(whole.embedding, place).adapters;
  shard.head.adapters = sharded_adapters(whole.head, shard.head.weight, place, head_partition(whole.head));
  for (size_t i = 0; i < shard.blocks.size(); ++i) {
    const auto to = partitioned_linears(shard.blocks[i]);
    for (size_t j = 0; const auto& [layer, partition] : linears_of(whole.blocks[i])) {
      auto& part = *to[j++].first;
      part.adapters = sharded_adapters(*layer, part.weight, place, partition);
    }
  }
}

template <class Update>
void for_each_shard(CausalLM& model, Update update) {
  HONE_CHECK(is_tensor_parallel(model), "the model is not tensor parallel");
  TensorParallelDecoder::check_layers(model.decoder());
  at::NoGradGuard no_grad;
  auto& shards = model.decoder().shards->shards();
  for (size_t i = 0; i < shards.size(); ++i)
    update(shards[i], model.decoder(),
           TensorParallelRank{static_cast<int64_t>(i), static_cast<int64_t>(shards.size()), shards[i].norm.weight.device()});
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
  model.decoder().shards = std::make_shared<TensorParallelDecoder>(model.decoder(), devices);
}

std::vector<Decoder*> computing_decoders(CausalLM& model) {
  auto& decoder = model.decoder();
  if (!decoder.shards) return {&decoder};
  std::vector<Decoder*> list;
  for (auto& shard : decoder.shards->shards()) list.push_back(&shard);
  return list;
}

bool is_tensor_parallel(const CausalLM& model) { return model.decoder().shards != nullptr; }

void reshard(CausalLM& model) { for_each_shard(model, shard_into); }
void reshard_adapters(CausalLM& model) { for_each_shard(model, shard_adapters_into); }

void TensorParallelDecoder::check(const DecoderConfig& config, size_t shards) {
  check_no_linear_attention(config, static_cast<int64_t>(shards));
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
  if (std::ranges::all_of(sizes, [&](int64_t size) { return size % static_cast<int64_t>(shards) == 0; })) return;
  throw UserError(ExitCode::usage, fmt::format("{} shards of {}", shards, parts),
                  "numbers that divide all of them: " + numbers_that_divide(sizes));
}

void TensorParallelDecoder::check_layers(const Decoder& whole) {
  check_plain(whole.head);
  for (const auto& block : whole.blocks) {
    if (block.moe) check_plain(*block.moe);
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
    : workers_(devices), synced_(adapters_of(whole)) {
  check(whole.config, devices.size());
  check_layers(whole);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < devices.size(); ++i)
    shard_into(shards_.emplace_back(Decoder{.config = whole.config}), whole,
               {static_cast<int64_t>(i), static_cast<int64_t>(devices.size()), devices[i]});
}

std::vector<at::Device> TensorParallelDecoder::block_devices() const {
  std::vector<at::Device> devices;
  for (const auto& shard : shards_)
    for (const auto& block : shard.blocks) devices.push_back(block.device());
  return devices;
}

void TensorParallelDecoder::sync_adapters(const Decoder& whole) {
  std::lock_guard lock(sync_mutex_);
  auto present = adapters_of(whole);
  if (present == synced_) return;
  check_layers(whole);
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < shards_.size(); ++i)
    shard_adapters_into(shards_[i], whole,
                        {static_cast<int64_t>(i), static_cast<int64_t>(shards_.size()), shards_[i].norm.weight.device()});
  synced_ = std::move(present);
}

Tensor TensorParallelDecoder::hidden(const ForwardInput& input,
                                     const std::function<std::shared_ptr<ForwardContext>(at::Device)>& forward_context_on) {
  Tensor first;
  workers_.run([&](size_t i) {
    const auto& decoder = shards_[i];
    const auto device = decoder.norm.weight.device();
    auto context = forward_context_on(device);
    context->region = &workers_.region(i);
    const auto encoder = input.encoder.to(device);
    auto x_th = input.embeddings_th.defined() ? input.embeddings_th.to(device)
                                              : decoder.embedding(input.tokens_t.to(device), input.adapters);
    x_th = encoder.replace_rows(x_th);
    for (size_t block = 0; block < decoder.blocks.size(); ++block)
      x_th = encoder.add_deepstack(block_forward(decoder.blocks[block], x_th, *context), block);
    x_th = decoder.norm(x_th);
    if (i == 0) first = x_th;
  });
  return first;
}

Tensor TensorParallelDecoder::logits(const Tensor& hidden_th, const LinearContext& mode) {
  TensorList parts(shards_.size());
  workers_.run([&](size_t i) { parts[i] = shards_[i].head(hidden_th.to(shards_[i].norm.weight.device()), mode); });
  for (auto& part : parts) part = part.to(hidden_th.device());
  return at::cat(parts, 1);
}

}  // namespace hone::model
