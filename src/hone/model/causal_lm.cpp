#include "hone/model/causal_lm.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hone/base/error.h"
#include "hone/model/decoder.h"
#include "hone/model/encoders/media_encoder.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/model/inference/thin_block.h"
#include "hone/model/loader.h"
#include "hone/model/rope_frequencies.h"
#include "hone/ops/loss/vocabulary_shard.h"

namespace hone::model {
namespace {

constexpr size_t kEmbeddingUnit = 0;

// Notifies the weight hooks, if any, of a pass's progress; in the backward pass by hooks on activations between two units.
struct HookCalls {
  WeightHooks* weight_hooks;

  void enter(size_t part) const {
    if (weight_hooks) weight_hooks->before_forward(part);
  }
  void leave(size_t part) const {
    if (weight_hooks) weight_hooks->after_forward(part);
  }
  void register_backward_hooks(const Tensor& x, std::optional<size_t> done, std::optional<size_t> next) const {
    // A leaf's gradient may be ready before those of the weights that use it: the input of a pipeline stage does not show it.
    if (!weight_hooks || !x.requires_grad() || x.is_leaf()) return;
    x.register_hook([residency = weight_hooks, done, next](const Tensor&) {
      if (done) residency->after_backward(*done);
      if (next) residency->before_backward(*next);
    });
  }
};

struct ByPlace {
  bool operator()(at::Device a, at::Device b) const { return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index()); }
};

}  // namespace

struct CausalLM::Impl {
  Decoder decoder;
  WeightHooks* weight_hooks = nullptr;
  MediaEncoder media{decoder};
  DistributedAttention* split = nullptr;
  bool training = false;
  RopeFrequencies frequencies;
  std::optional<RopeFrequencies> window_frequencies;
  std::unique_ptr<TensorParallelDecoder> sliced;  // none: computed as a whole

  explicit Impl(Decoder loaded) : decoder(std::move(loaded)) {
    const auto& config = decoder.config;
    frequencies = rope_frequencies(config.rope, config, 0);
    if (config.window_rope) window_frequencies = rope_frequencies(*config.window_rope, config, 0);
    if (const auto device = decoder.embedding.weight.device(); !device.is_meta()) place_frequencies(device);
  }

  void place_frequencies(at::Device device) {
    frequencies.inverse = frequencies.inverse.to(device);
    if (frequencies.axes.defined()) frequencies.axes = frequencies.axes.to(device);
    if (window_frequencies) window_frequencies->inverse = window_frequencies->inverse.to(device);
  }

  // Indices of units(): the embedding is 0, block i is i + 1.
  size_t final_norm_unit() const { return decoder.blocks.size() + 1; }

  // The model's modules may have been moved since it was loaded.
  void follow_device() {
    if (const auto device = decoder.embedding.weight.device(); frequencies.inverse.device() != device) place_frequencies(device);
  }

  Tensor embedded(const ForwardInput& input) const {
    const auto& embedding = decoder.embedding;
    return decoder.region ? decoder.region->embed(embedding, input.tokens_t, input.adapters)
                          : embedding(input.tokens_t, input.adapters);
  }

  // Ranks that split sequences, or tensor parallel ones that split the rows, have the features of their own rows.
  EncoderEmbeddings on_this_rank(EncoderEmbeddings features, const ForwardInput& input) const {
    const auto rows = decoder.region ? decoder.region->own_rows(input.size()) : RowRange{0, input.size()};
    const bool has_all = !split && rows.begin == 0 && rows.end == input.size();
    return has_all ? features : features.within(rows.begin, rows.end);
  }

  // The input of the head: every row of the final norm's output.
  Tensor left(const Tensor& hidden_th, const ForwardInput& input) const {
    return decoder.region ? decoder.region->enter(hidden_th, input.size()) : hidden_th;
  }

  // A tuner that replaces the embedding of a tied model also replaces the head. Writes only on a change, since several threads
  // may compute with one model.
  void tie() {
    if (decoder.config.tie_word_embeddings && !decoder.head.weight.is_same(decoder.embedding.weight))
      decoder.head.weight = decoder.embedding.weight;
  }

  // The rotary tables of a pass, for all layers or for two kinds of layers.
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

  // Inputs shared by the blocks of a pass, on the blocks' device.
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
    if (!cache && decoder.shifted_attention && training)
      pass->shifted = std::make_shared<ops::ShiftedAttentionMetadata>(ops::shifted_plan(input.segments, device));
    pass->store = decoder.offloader.get();
    pass->region = decoder.region;
    pass->experts = decoder.experts;
    pass->observer = training ? decoder.observer : nullptr;
    pass->plan.kinds = input.attention_kinds;
    pass->plan.blocks = input.attention_blocks;
    HONE_CHECK((input.attention_kinds.empty() && input.attention_blocks.empty()) || (!cache && !pass->split && !pass->shifted),
               "a cache, sequence parallelism and shifted attention are causal");
    return pass;
  }

  ops::RopeTable rope(const ForwardInput& input) {
    if (decoder.config.rope.kind != RopeKind::dynamic) return rope_table(input.positions_t, frequencies);
    // Dynamic scaling depends on each sequence's own length, regardless of packing.
    TensorList cos, sin;
    for (int64_t i = 0; i < input.segments.count(); ++i) {
      auto positions_t = input.positions_t.narrow(-1, input.segments.offsets[static_cast<size_t>(i)], input.segments.length(i));
      int64_t length = positions_t.numel() ? positions_t.max().item<int64_t>() + 1 : 0;
      auto table = rope_table(positions_t, rope_frequencies(decoder.config.rope, decoder.config, length));
      cos.push_back(table.cos), sin.push_back(table.sin);
    }
    return {at::cat(cos), at::cat(sin)};
  }

  // Whether the last block computes keys and values of all rows, and what follows of the wanted ones alone. Router logits and
  // capacities of experts are about all rows.
  static bool can_select_rows(const Block& block, const ForwardContext& pass, const ForwardInput& input) {
    return input.output_rows_r.defined() && input.adapters.empty() && !pass.observer && !pass.region && !pass.split &&
           !pass.shifted && (pass.cache || !block.mixture);
  }

  // A copy: blocks before may be recomputed with the same context.
  static ForwardContext with_output_rows(const ForwardContext& pass, Tensor rows_r) {
    auto own = pass;
    own.output_rows_r = std::move(rows_r);
    return own;
  }

  // Blocks [first, last). An addition and the norm after it may be one kernel: a block that keeps its activations receives x
  // already normalized and returns its output likewise. `behind` is the norm after the last block, null if another stage has it;
  // the result is normalized by it, or not yet (undefined).
  ops::NormedSum run_blocks(Tensor x_th, size_t first, size_t last, const Norm* behind, const ForwardInput& input,
                            PagedKvCache* cache, TensorList* router_logits) {
    const HookCalls hooks{weight_hooks};
    follow_device();
    const auto angles = rotations(input);
    std::map<at::Device, std::shared_ptr<ForwardContext>, ByPlace> passes;
    c10::OptionalDeviceGuard current;  // for kernels that need it
    auto here = decoder.embedding.weight.device();
    const bool recompute = training && at::GradMode::is_enabled() && !cache;
    auto norm_before = [&](size_t i) { return i < last ? &decoder.blocks[i].input_norm : behind; };
    auto takes_normed = [&](size_t i) {
      const auto* norm = norm_before(i);
      return norm && !weight_hooks && norm->weight.device() == x_th.device() &&
             (i == last || !recompute || decoder.blocks[i].recompute == Recompute::none);
    };
    Tensor normed_th;  // x normalized for the next block; undefined: not yet
    for (size_t i = first; i < last; ++i) {
      const auto& block = decoder.blocks[i];
      const size_t unit = i + 1;
      hooks.enter(unit);
      const auto place = block.device();
      auto& pass = passes[place];
      if (!pass) {
        pass = forward_context_on(place, input, angles, cache);
        pass->router_logits = router_logits;
      }
      if (place != here) current.reset_device(here = place);
      x_th = x_th.to(place);
      const ObservedModule module(pass->observer, block.name, x_th);
      if (is_thin(block, x_th, *pass)) {
        x_th = input.encoder.add_deepstack(thin_block_forward(block, x_th, *pass), i);
        normed_th.reset();
      } else if (!input.encoder.adds_behind(i) && takes_normed(i) && takes_normed(i + 1)) {
        if (!normed_th.defined()) normed_th = block.input_norm(x_th);
        const auto& next = *norm_before(i + 1);
        auto found = i + 1 == last && behind && can_select_rows(block, *pass, input)
                         ? block_forward(block, {x_th, normed_th}, next, with_output_rows(*pass, input.output_rows_r.to(place)))
                         : block_forward(block, {x_th, normed_th}, next, *pass);
        x_th = found.sum, normed_th = found.normed;
      } else {
        x_th = recompute ? block_forward(block, x_th, pass, block.recompute) : block_forward(block, x_th, *pass);
        x_th = input.encoder.add_deepstack(x_th, i);
        normed_th.reset();
      }
      module.end(x_th);
      hooks.leave(unit);
      const bool next_is_here = i + 1 < last || unit + 1 == final_norm_unit();  // and it is not in another stage
      hooks.register_backward_hooks(x_th, next_is_here ? std::optional(unit + 1) : std::nullopt, unit);
    }
    return {x_th, normed_th};
  }

  // NEFTune: uniform noise of magnitude alpha / sqrt(length * width) on every sequence's embeddings.
  Tensor with_noise(const Tensor& x_th, const ops::CuSeqlens& segments) const {
    if (!training || decoder.neftune_alpha <= 0) return x_th;
    auto lengths = at::empty({x_th.size(0), 1}, at::TensorOptions(at::kFloat));
    for (int64_t i = 0; i < segments.count(); ++i)
      lengths.narrow(0, segments.offsets[static_cast<size_t>(i)], segments.length(i))
          .fill_(static_cast<double>(segments.length(i)));
    auto size =
        (lengths * static_cast<double>(x_th.size(1))).rsqrt_().mul_(decoder.neftune_alpha).to(x_th.device(), x_th.scalar_type());
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

std::unique_ptr<CausalLM> CausalLM::skeleton(const DecoderConfig& config) {
  return std::unique_ptr<CausalLM>(new CausalLM(std::make_unique<Impl>(decoder_skeleton(config))));
}

// The rows that the input asks for, unless the last block computed only those.
static Tensor output_rows(const Tensor& hidden_th, const ForwardInput& input) {
  const auto& rows_r = input.output_rows_r;
  return rows_r.defined() && hidden_th.size(0) == input.size() ? hidden_th.index_select(0, rows_r.to(hidden_th.device()))
                                                               : hidden_th;
}

Tensor CausalLM::hidden_states(const ForwardInput& input, PagedKvCache* cache, TensorList* router_logits) {
  auto& self = *impl_;
  self.tie();
  if (auto* pipeline = self.decoder.pipeline) {
    HONE_CHECK(!input.output_rows_r.defined(), "pipeline stages compute all rows");
    auto x_th = pipeline->run(*this, input, router_logits);
    if (x_th.defined()) return self.left(final_norm(x_th), input);
    return at::zeros({1, 1}, self.decoder.norm.weight.options().requires_grad(false))
        .expand({input.size(), config().hidden_size});
  }
  if (!self.sliced && input.has_media()) return hidden_states(encode(input), cache, router_logits);
  if (!self.sliced) {
    const auto& blocks = self.decoder.blocks;
    self.follow_device();
    auto [x_th, normed_th] = self.run_blocks(embed(input), 0, blocks.size(), &self.decoder.norm, input, cache, router_logits);
    return output_rows(self.left(normed_th.defined() ? normed_th : final_norm(x_th), input), input);
  }
  const auto rotations = self.rotations(input);
  self.sliced->sync_adapters(self.decoder);
  HONE_CHECK(!input.has_media(), "a model in slices is given embeddings of media");
  return output_rows(
      self.sliced->hidden(input, [&](at::Device place) { return self.forward_context_on(place, input, rotations, cache); }),
      input);
}

void CausalLM::set_tower_cache(std::shared_ptr<TowerCache> cache) { impl_->media.set_cache(std::move(cache)); }

EncoderEmbeddings CausalLM::encode_media(const ImageInput& images, const AudioInput& audio) {
  return impl_->media.encode(images, audio, impl_->training);
}

// The vision and audio towers are gathered together with the embedding.
ForwardInput CausalLM::encode(const ForwardInput& input) {
  if (!input.has_media()) return input;
  HONE_CHECK(input.encoder.empty(), "media in addition to encoder outputs");
  const HookCalls hooks{impl_->weight_hooks};
  hooks.enter(kEmbeddingUnit);
  auto features = encode_media(input.images, input.audio);
  hooks.register_backward_hooks(features.embeddings_nh, {}, kEmbeddingUnit);
  return with_features(input, impl_->on_this_rank(std::move(features), input));
}

EncoderEmbeddings CausalLM::media_rows(const ForwardInput& input) const {
  return impl_->on_this_rank({input.media_rows(), {}, {}}, input);
}

ForwardInput CausalLM::with_features(const ForwardInput& input, EncoderEmbeddings features) const {
  auto encoded = input;
  encoded.encoder = std::move(features);
  if (const auto& vision = config().vision; vision && vision->sees_ahead && !input.images.empty())
    encoded.attention_blocks = row_blocks(input.images.rows_n, input.segments);
  encoded.images = {}, encoded.audio = {};
  return encoded;
}

Tensor CausalLM::embed(const ForwardInput& input) {
  auto& self = *impl_;
  HONE_CHECK(!self.sliced, "a model in tensor parallel slices computes whole passes");
  HONE_CHECK(!input.has_media(), "media are encoded before they are embedded");
  const HookCalls hooks{self.weight_hooks};
  hooks.enter(kEmbeddingUnit);
  auto x_th = input.embeddings_th.defined() ? input.embeddings_th : self.with_noise(self.embedded(input), input.segments);
  x_th = input.encoder.replace_rows(x_th);
  hooks.leave(kEmbeddingUnit);
  hooks.register_backward_hooks(x_th, kEmbeddingUnit + 1, {});
  return x_th;
}

Tensor CausalLM::run_blocks(Tensor x_th, int64_t begin, int64_t end, const ForwardInput& input, PagedKvCache* cache,
                            TensorList* router_logits) {
  auto& self = *impl_;
  HONE_CHECK(!self.sliced, "a model in tensor parallel slices computes whole passes");
  const auto first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
  HONE_CHECK(first <= last && last <= self.decoder.blocks.size(), "blocks [{}, {}) of {}", begin, end,
             self.decoder.blocks.size());
  if (first > 0) HookCalls{self.weight_hooks}.register_backward_hooks(x_th, first + 1, {});
  return self.run_blocks(std::move(x_th), first, last, nullptr, input, cache, router_logits).sum;
}

Tensor CausalLM::final_norm(const Tensor& x_th) {
  auto& self = *impl_;
  HONE_CHECK(!self.sliced, "a model in tensor parallel slices computes whole passes");
  HookCalls{self.weight_hooks}.enter(self.final_norm_unit());  // stays gathered: callers continue with the head
  const auto place = self.decoder.norm.weight.device();
  c10::OptionalDeviceGuard current;
  if (place != device()) current.reset_device(place);
  return self.decoder.norm(x_th.to(place));
}

Tensor CausalLM::logits(const Tensor& hidden_th, const ops::LoraMapping& adapters) {
  impl_->tie();
  if (impl_->sliced) return impl_->sliced->logits(hidden_th, {impl_->training, &adapters});
  c10::OptionalDeviceGuard current(hidden_th.device());
  auto logits = impl_->decoder.head(hidden_th, {impl_->training, &adapters});
  auto* region = impl_->decoder.region;
  if (!region) return logits;
  return config().num_labels > 0 ? region->replicated(logits) : region->gather_vocabulary(logits);
}

int64_t CausalLM::logits_size() const {
  const auto* region = impl_->decoder.region;
  return region && config().num_labels == 0 ? region->vocabulary()->words : head().weight.size(0);
}

const Linear& CausalLM::head() const {
  impl_->tie();
  return impl_->decoder.head;
}

const Linear* CausalLM::value_head() const { return impl_->decoder.value_head ? &*impl_->decoder.value_head : nullptr; }

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

Embedding& CausalLM::embedding() { return impl_->decoder.embedding; }
Module CausalLM::tree() { return impl_->decoder.tree(); }
std::vector<Unit> CausalLM::units() { return impl_->decoder.units(); }
std::vector<NamedParameter> CausalLM::parameters() { return tree().parameters(); }

Decoder& CausalLM::decoder() {
  impl_->tie();
  return impl_->decoder;
}

std::vector<Decoder*> CausalLM::computing_decoders() {
  if (!impl_->sliced) return {&decoder()};
  std::vector<Decoder*> list;
  for (auto& slice : impl_->sliced->slices()) list.push_back(&slice);
  return list;
}

void CausalLM::set_distributed_attention(DistributedAttention* split) { impl_->split = split; }
void CausalLM::set_weight_hooks(WeightHooks* hooks) { impl_->weight_hooks = hooks; }
bool CausalLM::has_weight_hooks() const { return impl_->weight_hooks; }

void CausalLM::set_slices(std::unique_ptr<TensorParallelDecoder> slices) {
  impl_->sliced = std::move(slices);
  impl_->place_frequencies(device());
}
bool CausalLM::is_sliced() const { return impl_->sliced != nullptr; }

bool CausalLM::repeats_launches() const {
  auto& self = *impl_;
  auto& decoder = self.decoder;
  const auto& config = decoder.config;
  if (self.weight_hooks || self.split || self.sliced || decoder.region || decoder.offloader || decoder.shifted_attention ||
      decoder.observer || decoder.neftune_alpha > 0)
    return false;
  if (config.vision || config.audio || config.rope.kind == RopeKind::dynamic || config.experts.count > 0 || devices().size() > 1)
    return false;
  auto repeats = [](const Linear* layer) {
    return layer->tuners.empty() && !layer->quantized_base && !layer->quantized && !layer->rounds_weight();
  };
  return std::ranges::all_of(decoder.blocks, [&](Block& block) {
    return std::ranges::all_of(block.module().linears(), repeats) && (block.recompute == Recompute::none || !block.draws());
  });
}

void CausalLM::set_training(bool training) { impl_->training = training; }
bool CausalLM::training() const { return impl_->training; }

}  // namespace hone::model
