#include "hone/model/causal_lm.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hone/device/memory.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/model/loader.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/rope_frequencies.h"

namespace hone::model {
namespace {

// Tells the residency, if there is one, where a pass is; the way back, by hooks on what flows between two parts.
struct HookCalls {
  WeightHooks* weight_hooks;

  void enter(size_t part) const {
    if (weight_hooks) weight_hooks->before_forward(part);
  }
  void leave(size_t part) const {
    if (weight_hooks) weight_hooks->after_forward(part);
  }
  void register_backward_hooks(const Tensor& x, std::optional<size_t> done, std::optional<size_t> next) const {
    if (!weight_hooks || !x.requires_grad()) return;
    x.register_hook([residency = weight_hooks, done, next](const Tensor&) {
      if (done) residency->after_backward(*done);
      if (next) residency->before_backward(*next);
    });
  }
};

struct ByPlace {
  bool operator()(at::Device a, at::Device b) const { return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index()); }
};

// Nothing trains the layer, and it is computed with its weight as it stands.
bool is_free(const Linear* layer) {
  return !layer->weight.requires_grad() && !layer->is_tuned() && !layer->quantized && !layer->quantized_base;
}

void append(ParameterUnit& part, Linear& linear) {
  part.parameters.push_back({linear.name + ".weight", &linear.weight});
  if (linear.bias.defined()) part.parameters.push_back({linear.name + ".bias", &linear.bias});
}

void append_adapters(ParameterUnit& part, const std::string& owner, std::vector<ops::LoraWeights>& adapters) {
  for (auto& adapter : adapters) {
    part.parameters.push_back({fmt::format("{}.lora_A.{}", owner, adapter.adapter), &adapter.a});
    part.parameters.push_back({fmt::format("{}.lora_B.{}", owner, adapter.adapter), &adapter.b});
    if (adapter.magnitude.defined())
      part.parameters.push_back({fmt::format("{}.lora_magnitude.{}", owner, adapter.adapter), &adapter.magnitude});
  }
}

// "…q_proj.oft_R.default.weight": PEFT puts the adapter's name behind the first part of a tensor's own.
std::vector<NamedParameter> tuner_parameters(Linear& linear) {
  std::vector<NamedParameter> list;
  for (auto& tuner : linear.tuners)
    for (auto& own : tuner->tensors()) {
      const size_t dot = std::min(own.name.find('.'), own.name.size());
      list.push_back(
          {fmt::format("{}.{}.{}{}", linear.name, own.name.substr(0, dot), tuner->adapter, own.name.substr(dot)), own.value});
    }
  return list;
}

}  // namespace

struct CausalLM::Impl {
  Decoder decoder;
  WeightHooks* weight_hooks = nullptr;
  DistributedAttention* split = nullptr;
  bool training = false;
  Recompute recompute = Recompute::none;
  std::vector<int64_t> recomputed_blocks;  // empty: all
  std::optional<ActivationOffloader> store;
  double neftune = 0.0;
  bool shifted = false;
  RopeFrequencies frequencies;
  std::optional<RopeFrequencies> window_frequencies;
  std::unique_ptr<TensorParallelDecoder> sliced;  // none: computed whole

  explicit Impl(Decoder loaded) : decoder(std::move(loaded)) {
    const auto& config = decoder.config;
    frequencies = rope_frequencies(config.rope, config, 0);
    if (config.window_rope) window_frequencies = rope_frequencies(*config.window_rope, config, 0);
    place_frequencies(decoder.embedding.weight.device());
  }

  void place_frequencies(at::Device device) {
    frequencies.inverse = frequencies.inverse.to(device);
    if (frequencies.axes.defined()) frequencies.axes = frequencies.axes.to(device);
    if (window_frequencies) window_frequencies->inverse = window_frequencies->inverse.to(device);
  }

  // The numbers that parameter_units() gives: blocks first, then the norm and the head, then the embedding unless it is the head.
  size_t embedding_unit() const { return decoder.blocks.size() + (decoder.config.tie_word_embeddings ? 0 : 1); }
  // Whose backward pass is done when the gradient of a block's answer is there. A tied head waits for the embedding's gradient.
  std::optional<size_t> unit_behind(size_t block) const {
    const size_t next = block + 1;
    if (next < decoder.blocks.size()) return std::nullopt;  // in another stage
    return decoder.config.tie_word_embeddings ? std::nullopt : std::optional(next);
  }

  Recompute recompute_in(size_t block) const {
    bool chosen = recomputed_blocks.empty() || std::ranges::count(recomputed_blocks, static_cast<int64_t>(block));
    return chosen ? recompute : Recompute::none;
  }

  // A tuner that replaces the embedding of a tied model thereby replaces the head. Nothing is written while nothing changes:
  // several threads may compute with one model.
  void tie() {
    if (decoder.config.tie_word_embeddings && !decoder.head.weight.is_same(decoder.embedding.weight))
      decoder.head.weight = decoder.embedding.weight;
  }

  // On a CPU, reading the weights is what a step costs, and a mapped file is on small pages. Copies are on huge ones where
  // buffers are kept (device/memory.h). A model that fills the machine stays in its file, whose pages the system can drop.
  void copy_weights_to_huge_pages() {
    tie();
    auto& head = decoder.head;
    if (!head.weight.is_cpu() || !is_free(&head)) return;
    int64_t bytes = 0;
    for (auto& parameter : decoder.parameters()) bytes += static_cast<int64_t>(parameter.value->nbytes());
    auto use = device::memory_use(at::kCPU);
    if (bytes > (use.total - use.current) / 2) return;
    at::NoGradGuard no_grad;
    for (auto& block : decoder.blocks)
      for (auto* layer : {&block.attention.o, block.mlp ? &block.mlp->down : nullptr})
        if (layer && is_free(layer) && layer->weight.is_cpu()) layer->weight = layer->weight.clone();
    head.weight = head.weight.clone();
    if (decoder.config.tie_word_embeddings) decoder.embedding.weight = head.weight;
  }

  std::vector<Block*> computing_blocks() {
    std::vector<Block*> blocks;
    auto add = [&](Decoder& from) {
      for (auto& block : from.blocks) blocks.push_back(&block);
    };
    if (!sliced)
      add(decoder);
    else
      for (auto& slice : sliced->slices()) add(slice);
    return blocks;
  }

  // How far the positions of a pass are turned, in all layers or in two kinds of them.
  struct Rotations {
    ops::RopeTable rope, window_rope;
  };

  static ops::RopeTable moved(const ops::RopeTable& table, at::Device device) {
    return {table.cos.to(device), table.sin.to(device)};
  }

  Rotations rotations(const ForwardInput& input) {
    if (!window_frequencies) return {rope(input), {}};
    return {rope(input), rope_table(input.positions_t, *window_frequencies)};
  }

  // What the blocks of a pass share, on the device that they are on.
  std::shared_ptr<ForwardContext> forward_context_on(at::Device device, const ForwardInput& input, const Rotations& rotations,
                                                     PagedKvCache* cache) {
    const bool has_plan = cache || input.offsets_s.defined();
    auto pass = std::make_shared<ForwardContext>(
        ForwardContext{has_plan ? ops::AttentionMetadata{input.segments, {}} : ops::attention_metadata(input.segments, device),
                       moved(rotations.rope, device),
                       cache,
                       {training, cache ? &input.adapters : nullptr}});
    if (window_frequencies) pass->local_rope = moved(rotations.window_rope, device);
    if (!cache && input.offsets_s.defined()) pass->plan.offsets = input.offsets_s;
    if (!cache) pass->split = split;
    if (!cache && shifted && training)
      pass->shifted = std::make_shared<ops::ShiftedAttentionMetadata>(ops::shifted_plan(input.segments, device));
    if (store) pass->store = &*store;
    pass->plan.kinds = input.attention_kinds;
    HONE_CHECK(input.attention_kinds.empty() || (!cache && !pass->split && !pass->shifted),
               "a cache, sequence parallelism and shifted attention are causal");
    return pass;
  }

  ops::RopeTable rope(const ForwardInput& input) {
    if (decoder.config.rope.kind != RopeKind::dynamic) return rope_table(input.positions_t, frequencies);
    // Dynamic scaling follows each sequence's own length, whatever it is packed with.
    TensorList cos, sin;
    for (int64_t i = 0; i < input.segments.count(); ++i) {
      auto positions_t = input.positions_t.narrow(-1, input.segments.offsets[static_cast<size_t>(i)], input.segments.length(i));
      int64_t length = positions_t.numel() ? positions_t.max().item<int64_t>() + 1 : 0;
      auto table = rope_table(positions_t, rope_frequencies(decoder.config.rope, decoder.config, length));
      cos.push_back(table.cos), sin.push_back(table.sin);
    }
    return {at::cat(cos), at::cat(sin)};
  }

  // Uniform noise of size alpha / sqrt(length * width) on every sequence's embeddings.
  Tensor with_noise(const Tensor& x_th, const ops::CuSeqlens& segments) const {
    if (!training || neftune <= 0) return x_th;
    auto lengths = at::empty({x_th.size(0), 1}, at::TensorOptions(at::kFloat));
    for (int64_t i = 0; i < segments.count(); ++i)
      lengths.narrow(0, segments.offsets[static_cast<size_t>(i)], segments.length(i))
          .fill_(static_cast<double>(segments.length(i)));
    auto size = (lengths * static_cast<double>(x_th.size(1))).rsqrt_().mul_(neftune).to(x_th.device(), x_th.scalar_type());
    return x_th + at::empty_like(x_th).uniform_(-1.0, 1.0) * size;
  }
};

CausalLM::CausalLM(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CausalLM::~CausalLM() = default;

std::unique_ptr<CausalLM> CausalLM::load(const std::filesystem::path& folder, const LoadOptions& options) {
  return std::unique_ptr<CausalLM>(new CausalLM(std::make_unique<Impl>(load_decoder(folder, options))));
}

std::unique_ptr<CausalLM> CausalLM::random(const DecoderConfig& config, uint64_t seed, const LoadOptions& options) {
  return std::unique_ptr<CausalLM>(new CausalLM(std::make_unique<Impl>(random_decoder(config, seed, options))));
}

Tensor CausalLM::hidden_states(const ForwardInput& input, PagedKvCache* cache, TensorList* router_logits) {
  auto& self = *impl_;
  self.tie();
  if (!self.sliced) return final_norm(run_blocks(embed(input), 0, self.decoder.config.layers, input, cache, router_logits));
  const auto rotations = self.rotations(input);
  self.sliced->sync_adapters(self.decoder);
  return self.sliced->hidden(input, [&](at::Device place) { return self.forward_context_on(place, input, rotations, cache); });
}

Tensor CausalLM::embed(const ForwardInput& input) {
  auto& self = *impl_;
  HONE_CHECK(!self.sliced, "a model in tensor parallel slices computes whole passes");
  const HookCalls hooks{self.weight_hooks};
  hooks.enter(self.embedding_unit());
  auto x_th = input.embeddings_th.defined()
                  ? input.embeddings_th
                  : self.with_noise(self.decoder.embedding(input.tokens_t, input.adapters), input.segments);
  if (!self.decoder.config.tie_word_embeddings) hooks.leave(self.embedding_unit());
  x_th = input.encoder.replace_rows(x_th);
  hooks.register_backward_hooks(x_th, 0, {});
  return x_th;
}

Tensor CausalLM::run_blocks(Tensor x_th, int64_t begin, int64_t end, const ForwardInput& input, PagedKvCache* cache,
                            TensorList* router_logits) {
  auto& self = *impl_;
  HONE_CHECK(!self.sliced, "a model in tensor parallel slices computes whole passes");
  const auto first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
  HONE_CHECK(first <= last && last <= self.decoder.blocks.size(), "blocks [{}, {}) of {}", begin, end,
             self.decoder.blocks.size());
  const HookCalls hooks{self.weight_hooks};
  const auto rotations = self.rotations(input);
  std::map<at::Device, std::shared_ptr<ForwardContext>, ByPlace> passes;
  c10::OptionalDeviceGuard current;  // for kernels that ask for it
  auto here = device();
  const bool recompute = self.training && at::GradMode::is_enabled() && !cache;
  if (first > 0) hooks.register_backward_hooks(x_th, first, {});
  for (size_t i = first; i < last; ++i) {
    const auto& block = self.decoder.blocks[i];
    hooks.enter(i);
    const auto place = block.device();
    auto& pass = passes[place];
    if (!pass) {
      pass = self.forward_context_on(place, input, rotations, cache);
      pass->router_logits = router_logits;
    }
    if (place != here) current.reset_device(here = place);
    x_th = x_th.to(place);
    x_th = recompute ? block_forward(block, x_th, pass, self.recompute_in(i)) : block_forward(block, x_th, *pass);
    x_th = input.encoder.add_deepstack(x_th, i);
    hooks.leave(i);
    hooks.register_backward_hooks(x_th, i + 1 < last ? std::optional(i + 1) : self.unit_behind(i), i);
  }
  return x_th;
}

Tensor CausalLM::final_norm(const Tensor& x_th) {
  auto& self = *impl_;
  HONE_CHECK(!self.sliced, "a model in tensor parallel slices computes whole passes");
  HookCalls{self.weight_hooks}.enter(
      self.decoder.blocks.size());  // and stays: who asks for hidden states continues with the head
  const auto place = self.decoder.norm.weight.device();
  c10::OptionalDeviceGuard current;
  if (place != device()) current.reset_device(place);
  return self.decoder.norm(x_th.to(place));
}

Block& CausalLM::block(int64_t index) { return impl_->decoder.blocks.at(static_cast<size_t>(index)); }

Tensor CausalLM::logits(const Tensor& hidden_th, const ops::LoraMapping& adapters) {
  impl_->tie();
  if (impl_->sliced) return impl_->sliced->logits(hidden_th, {impl_->training, &adapters});
  c10::OptionalDeviceGuard current(hidden_th.device());
  return impl_->decoder.head(hidden_th, {impl_->training, &adapters});
}

void CausalLM::apply_tensor_parallel(const std::vector<at::Device>& devices) {
  impl_->tie();
  impl_->sliced = std::make_unique<TensorParallelDecoder>(impl_->decoder, devices);
  impl_->place_frequencies(device());
}

void CausalLM::fuse_projections() {
  if (!impl_->sliced) impl_->copy_weights_to_huge_pages();
  auto is_rounded = [](const Linear* layer) { return layer->quantized && !layer->is_tuned(); };
  auto join = [&](FusedProjection& joined, std::vector<Linear*> layers) {
    if (std::ranges::all_of(layers, is_free) || std::ranges::all_of(layers, is_rounded)) joined = FusedProjection::of(layers);
  };
  for (auto* each : impl_->computing_blocks()) {
    auto& block = *each;
    auto& a = block.attention;
    if (!a.q.quantized && !ops::benefits_from_fused_qkv(a.q.weight, block.shape)) return;
    const bool norms_are_plain = !a.q_norm || !a.q_norm->zero_centered;  // others are not part of what follows a joined product
    if (norms_are_plain && !a.qkv.is_current_for({&a.q, &a.k, &a.v})) join(a.qkv, {&a.q, &a.k, &a.v});
    if (auto& mlp = block.mlp; mlp && !mlp->gate_up.is_current_for({&mlp->gate, &mlp->up}))
      join(mlp->gate_up, {&mlp->gate, &mlp->up});
  }
}

void CausalLM::join_trained_projections() {
  if (!device().is_cuda() || impl_->sliced || impl_->weight_hooks) return;
  auto is_plain = [](const Linear* layer) {
    return layer->tuners.empty() && !layer->quantized && !layer->quantized_base && !layer->float8;
  };
  auto join = [&](FusedProjection& joined, std::vector<Linear*> layers) {
    if (std::ranges::all_of(layers, is_plain)) joined = FusedProjection::of(layers);
  };
  for (auto& block : impl_->decoder.blocks) {
    join(block.attention.qkv, {&block.attention.q, &block.attention.k, &block.attention.v});
    if (block.mlp) join(block.mlp->gate_up, {&block.mlp->gate, &block.mlp->up});
  }
}

void CausalLM::quantize(int bits) {
  if (!device().is_cpu())
    throw UserError(ExitCode::usage, fmt::format("weights of {} bits on {}", bits, device().str()),
                    "rounded weights are for the CPU; leave --quant_bits out here");
  impl_->tie();
  auto round = [&](Linear& linear, bool keep) {
    linear.quantized = ops::quantize_weight(linear.weight, bits);
    if (!keep) linear.weight = linear.weight.to(at::kMeta);
  };
  for (auto* block : impl_->computing_blocks()) {
    for (auto* linear : block->linears()) round(*linear, false);
    if (block->mixture) block->mixture->gate_up.quantize(bits), block->mixture->down.quantize(bits);
  }
  if (!impl_->sliced) return round(impl_->decoder.head, impl_->decoder.config.tie_word_embeddings);
  for (auto& slice : impl_->sliced->slices()) round(slice.head, false);
}

const Linear& CausalLM::head() const {
  impl_->tie();
  return impl_->decoder.head;
}

const Linear* CausalLM::value_head() const { return impl_->decoder.value_head ? &*impl_->decoder.value_head : nullptr; }

void CausalLM::untie_head() {
  impl_->tie();
  impl_->decoder.config.tie_word_embeddings = false;
}

const DecoderConfig& CausalLM::config() const { return impl_->decoder.config; }
at::Device CausalLM::device() const { return impl_->sliced ? impl_->sliced->device() : impl_->decoder.embedding.weight.device(); }

std::vector<at::Device> CausalLM::block_devices() const {
  if (impl_->sliced) return impl_->sliced->block_devices();
  std::vector<at::Device> devices;
  for (const auto& block : impl_->decoder.blocks) devices.push_back(block.device());
  return devices;
}

std::vector<at::Device> CausalLM::devices() const {
  std::vector<at::Device> devices{device()};
  auto all = block_devices();
  if (!impl_->sliced) all.push_back(impl_->decoder.norm.weight.device());
  for (auto device : all)
    if (!std::ranges::count(devices, device)) devices.push_back(device);
  return devices;
}

at::ScalarType CausalLM::dtype() const { return impl_->decoder.embedding.weight.scalar_type(); }

std::vector<Linear*> CausalLM::linears() {
  std::vector<Linear*> list;
  for (auto& block : impl_->decoder.blocks) {
    auto more = block.linears();
    list.insert(list.end(), more.begin(), more.end());
  }
  if (!impl_->decoder.config.tie_word_embeddings) list.push_back(&impl_->decoder.head);
  return list;
}

Embedding& CausalLM::embedding() { return impl_->decoder.embedding; }
std::vector<NamedParameter> CausalLM::parameters() { return impl_->decoder.parameters(); }

std::vector<NamedParameter> CausalLM::adapter_parameters() {
  std::vector<NamedParameter> list;
  for (auto& slot : slots())
    for (auto& adapter : *slot.adapters) {
      const bool embedding = slot.kind == SlotKind::embedding;
      list.push_back(
          {fmt::format(fmt::runtime(embedding ? "{}.lora_embedding_A.{}" : "{}.lora_A.{}.weight"), slot.owner, adapter.adapter),
           &adapter.a});
      list.push_back(
          {fmt::format(fmt::runtime(embedding ? "{}.lora_embedding_B.{}" : "{}.lora_B.{}.weight"), slot.owner, adapter.adapter),
           &adapter.b});
      if (adapter.magnitude.defined())
        list.push_back({fmt::format("{}.lora_magnitude_vector.{}.weight", slot.owner, adapter.adapter), &adapter.magnitude});
    }
  for (auto* linear : linears())
    for (auto& parameter : tuner_parameters(*linear)) list.push_back(parameter);
  return list;
}

std::vector<AdapterSlot> CausalLM::slots() {
  auto& decoder = impl_->decoder;
  std::vector<AdapterSlot> list{{decoder.embedding.name, decoder.embedding.name, SlotKind::embedding, &decoder.embedding.weight,
                                 &decoder.embedding.adapters}};
  for (auto& block : decoder.blocks)
    for (auto& slot : block.slots()) list.push_back(std::move(slot));
  if (!decoder.config.tie_word_embeddings)
    list.push_back({decoder.head.name, decoder.head.name, SlotKind::linear, &decoder.head.weight, &decoder.head.adapters});
  return list;
}

std::vector<ParameterUnit> CausalLM::parameter_units() {
  auto& decoder = impl_->decoder;
  std::vector<ParameterUnit> parts;
  for (auto& block : decoder.blocks) {
    auto& part = parts.emplace_back(ParameterUnit{block.parameters()});
    for (auto& slot : block.slots()) append_adapters(part, slot.path, *slot.adapters);
    for (auto* linear : block.linears())
      for (auto& parameter : tuner_parameters(*linear)) part.parameters.push_back(parameter);
  }
  ParameterUnit embedding{{{decoder.embedding.name + ".weight", &decoder.embedding.weight}}};
  append_adapters(embedding, decoder.embedding.name, decoder.embedding.adapters);
  ParameterUnit last{{{decoder.norm.name + ".weight", &decoder.norm.weight}}};
  if (decoder.config.tie_word_embeddings) {
    last.parameters.insert(last.parameters.end(), embedding.parameters.begin(), embedding.parameters.end());
  } else {
    append(last, decoder.head);
    append_adapters(last, decoder.head.name, decoder.head.adapters);
  }
  if (decoder.value_head) append(last, *decoder.value_head);
  parts.push_back(std::move(last));
  if (!decoder.config.tie_word_embeddings) parts.push_back(std::move(embedding));
  return parts;
}

void CausalLM::set_distributed_attention(DistributedAttention* split) { impl_->split = split; }
void CausalLM::set_weight_hooks(WeightHooks* residency) { impl_->weight_hooks = residency; }

bool CausalLM::repeats_launches() const {
  auto& self = *impl_;
  const auto& config = self.decoder.config;
  if (self.weight_hooks || self.split || self.sliced || self.store || self.shifted || self.neftune > 0) return false;
  if (config.rope.kind == RopeKind::dynamic || config.experts.count > 0 || devices().size() > 1) return false;
  auto repeats = [](const Linear* layer) {
    return layer->tuners.empty() && !layer->quantized_base && !layer->quantized && !layer->float8;
  };
  return std::ranges::all_of(self.decoder.blocks, [&](Block& block) {
    return std::ranges::all_of(block.linears(), repeats) && (self.recompute == Recompute::none || !block.draws());
  });
}

void CausalLM::set_training(bool training) { impl_->training = training; }
bool CausalLM::training() const { return impl_->training; }
void CausalLM::set_recompute(Recompute what, std::vector<int64_t> blocks) {
  impl_->recompute = what;
  impl_->recomputed_blocks = std::move(blocks);
}
void CausalLM::set_activation_offload(bool offload) { offload ? void(impl_->store.emplace(device())) : impl_->store.reset(); }
void CausalLM::set_neftune(double alpha) { impl_->neftune = alpha; }
void CausalLM::set_shifted_attention(bool shifted) { impl_->shifted = shifted; }

void CausalLM::use_float8() {
  constexpr int64_t kTile = 16;
  bool first = true;
  for (auto& block : impl_->decoder.blocks)
    for (auto* linear : block.linears()) {
      linear->float8 = !first && linear->weight.size(0) % kTile == 0 && linear->weight.size(1) % kTile == 0;
      first = false;
    }
}

}  // namespace hone::model
