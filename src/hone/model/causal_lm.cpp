#include "hone/model/causal_lm.h"

#include <algorithm>
#include <unordered_map>

#include "hone/base/error.h"
#include "hone/model/decoder.h"
#include "hone/model/encoders/media_encoder.h"
#include "hone/model/forward_context.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/model/inference/thin_block.h"
#include "hone/model/loader.h"
#include "hone/model/neftune.h"
#include "hone/model/rotary/rotary_embedding.h"
#include "hone/model/unit_hooks.h"

namespace hone::model {
namespace {

constexpr size_t kEmbeddingUnit = 0;

}  // namespace

struct CausalLM::Impl {
  Decoder decoder;
  bool training = false;
  RotaryEmbedding rotary{decoder.config};

  explicit Impl(Decoder loaded) : decoder(std::move(loaded)) { follow_device(); }

  at::Device device() const { return decoder.shards ? decoder.shards->device() : decoder.embedding.weight.device(); }

  // Indices of units(): the embedding is 0, block i is i + 1.
  size_t final_norm_unit() const { return decoder.blocks.size() + 1; }

  // The model's modules may have been moved or sharded since it was loaded.
  void follow_device() {
    if (!device().is_meta()) rotary.to(device());
  }

  void check_computes_stages() const {
    HONE_CHECK(!decoder.shards, "a tensor parallel inference model computes full passes only");
  }

  Tensor embedded(const ForwardInput& input) const {
    const auto& embedding = decoder.embedding;
    return decoder.region ? decoder.region->embed(embedding, input.tokens_t, input.adapters)
                          : embedding(input.tokens_t, input.adapters);
  }

  // The input of the head: with sequence parallelism, the rows of all ranks.
  Tensor head_input(const Tensor& hidden_th, const ForwardInput& input) const {
    return decoder.region ? decoder.region->enter(hidden_th, input.size()) : hidden_th;
  }

  // A tuner that replaces the embedding of a tied model also replaces the head. Writes only on a change, since several threads
  // may compute with one model.
  void tie() {
    if (decoder.config.tie_word_embeddings && !decoder.head.weight.is_same(decoder.embedding.weight))
      decoder.head.weight = decoder.embedding.weight;
  }

  // Whether the last block may compute everything after the keys and values only for the output rows. Router logits and
  // capacities of experts are about all rows, and so are the scales of 8-bit floats in training.
  static bool can_select_rows(const Block& block, const ForwardContext& context, const ForwardInput& input) {
    return input.output_rows_r.defined() && input.adapters.empty() && !context.observer && !context.region &&
           !context.distributed_attention && !context.shifted_attention &&
           (context.cache || (!block.moe && !block.mlp->down.float8));
  }

  // A copy: blocks before may be recomputed with the same context.
  static std::shared_ptr<ForwardContext> with_output_rows(const ForwardContext& context, Tensor rows_r) {
    auto own = std::make_shared<ForwardContext>(context);
    own->output_rows_r = std::move(rows_r);
    return own;
  }

  // Blocks [first, last). An addition and the norm after it may be one kernel: a block that keeps its activations receives x
  // already normalized and returns its output normalized, too. `last_norm` is the norm after the last block, null if another
  // stage has it; the result is normalized by it, or not yet (undefined).
  ops::NormedSum run_blocks(Tensor x_th, size_t first, size_t last, const Norm* last_norm, const ForwardInput& input,
                            PagedKvCache* cache, TensorList* router_logits) {
    const UnitHooks hooks{decoder.weight_hooks};
    follow_device();
    const auto rotary_tables = rotary.tables(input);
    std::unordered_map<at::Device, std::shared_ptr<ForwardContext>> contexts;
    c10::OptionalDeviceGuard guard;  // for kernels that need it
    auto current_device = decoder.embedding.weight.device();
    const bool recompute = training && at::GradMode::is_enabled() && !cache;
    auto norm_before = [&](size_t i) { return i < last ? &decoder.blocks[i].input_norm : last_norm; };
    auto takes_normed = [&](size_t i) {
      const auto* norm = norm_before(i);
      return norm && !decoder.weight_hooks && norm->weight.device() == x_th.device() &&
             (i == last || !recompute || decoder.blocks[i].recompute == Recompute::none);
    };
    Tensor normed_th;  // x normalized for the next block; undefined: not yet
    for (size_t i = first; i < last; ++i) {
      const auto& block = decoder.blocks[i];
      const size_t unit = i + 1;
      hooks.enter(unit);
      const auto device = block.device();
      auto& shared = contexts[device];
      if (!shared) {
        shared = make_forward_context(decoder, input, rotary_tables, cache, training, device);
        shared->router_logits = router_logits;
      }
      if (device != current_device) guard.reset_device(current_device = device);
      if (x_th.device() != device) x_th = x_th.to(device);
      const bool selects = i + 1 == last && last_norm && !input.encoder.adds_after(i) && can_select_rows(block, *shared, input);
      const auto context = selects ? with_output_rows(*shared, input.output_rows_r.to(device)) : shared;
      const ObservedModule module(context->observer, block.name, x_th);
      if (is_thin(block, x_th, *shared)) {
        x_th = input.encoder.add_deepstack(thin_block_forward(block, x_th, *shared), i);
        normed_th.reset();
      } else if (!input.encoder.adds_after(i) && takes_normed(i) && takes_normed(i + 1)) {
        if (!normed_th.defined()) normed_th = block.input_norm(x_th);
        auto output = block_forward(block, {x_th, normed_th}, *norm_before(i + 1), *context);
        x_th = output.sum, normed_th = output.normed;
      } else {
        x_th = recompute ? block_forward(block, x_th, context, block.recompute) : block_forward(block, x_th, *context);
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

  Tensor with_noise(const Tensor& x_th, const ForwardInput& input) const {
    return training && decoder.neftune_alpha > 0 ? add_neftune_noise(x_th, input, decoder.neftune_alpha, decoder.region) : x_th;
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

// The output rows of the input, unless the last block computed only those.
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
    if (x_th.defined()) return self.head_input(final_norm(x_th), input);
    return at::zeros({1, 1}, self.decoder.norm.weight.options().requires_grad(false))
        .expand({input.size(), config().hidden_size});
  }
  const auto& shards = self.decoder.shards;
  if (!shards && input.has_media()) return hidden_states(encode(input), cache, router_logits);
  self.follow_device();
  if (!shards) {
    const auto& blocks = self.decoder.blocks;
    auto [x_th, normed_th] = self.run_blocks(embed(input), 0, blocks.size(), &self.decoder.norm, input, cache, router_logits);
    return output_rows(self.head_input(normed_th.defined() ? normed_th : final_norm(x_th), input), input);
  }
  const auto rotary_tables = self.rotary.tables(input);
  shards->sync_adapters(self.decoder);
  HONE_CHECK(!input.has_media(), "a tensor parallel inference model gets embeddings of media");
  HONE_CHECK(!router_logits, "a tensor parallel inference model returns no router logits");
  return output_rows(shards->hidden(input,
                                    [&](at::Device device) {
                                      return make_forward_context(self.decoder, input, rotary_tables, cache, self.training,
                                                                  device);
                                    }),
                     input);
}

// The vision and audio towers are gathered together with the embedding.
ForwardInput CausalLM::encode(const ForwardInput& input) {
  if (!input.has_media()) return input;
  HONE_CHECK(input.encoder.empty(), "the input has media and encoder outputs");
  auto& decoder = impl_->decoder;
  const UnitHooks hooks{decoder.weight_hooks};
  hooks.enter(kEmbeddingUnit);
  auto features = encode_media(decoder, input.images, input.audio, impl_->training);
  hooks.register_backward_hooks(features.embeddings_nh, {}, kEmbeddingUnit);
  return with_features(decoder, input, features_on_rank(decoder, std::move(features), input));
}

Tensor CausalLM::embed(const ForwardInput& input) {
  auto& self = *impl_;
  self.check_computes_stages();
  HONE_CHECK(!input.has_media(), "media are encoded before they are embedded");
  const UnitHooks hooks{self.decoder.weight_hooks};
  hooks.enter(kEmbeddingUnit);
  auto x_th = input.embeddings_th.defined() ? input.embeddings_th : self.with_noise(self.embedded(input), input);
  x_th = input.encoder.replace_rows(x_th);
  // Where only towers train, a rank without media takes part in the gathers of the others' backward pass.
  if (hooks && self.training && at::GradMode::is_enabled() && !x_th.requires_grad() && trains_towers(self.decoder))
    x_th = x_th.detach().requires_grad_();
  hooks.leave(kEmbeddingUnit);
  // A lookup needs no weights in the backward pass; the factors of an adapter are needed.
  const auto returns = self.decoder.embedding.adapters.empty() ? std::nullopt : std::optional(kEmbeddingUnit);
  hooks.register_backward_hooks(x_th, kEmbeddingUnit + 1, returns);
  return x_th;
}

Tensor CausalLM::run_blocks(Tensor x_th, int64_t begin, int64_t end, const ForwardInput& input, PagedKvCache* cache,
                            TensorList* router_logits) {
  auto& self = *impl_;
  self.check_computes_stages();
  const auto first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
  HONE_CHECK(first <= last && last <= self.decoder.blocks.size(), "blocks [{}, {}) of {}", begin, end,
             self.decoder.blocks.size());
  if (first > 0) UnitHooks{self.decoder.weight_hooks}.register_backward_hooks(x_th, first + 1, {});
  return self.run_blocks(std::move(x_th), first, last, nullptr, input, cache, router_logits).sum;
}

Tensor CausalLM::final_norm(const Tensor& x_th) {
  auto& self = *impl_;
  self.check_computes_stages();
  UnitHooks{self.decoder.weight_hooks}.enter(self.final_norm_unit());  // stays gathered: callers continue with the head
  const auto norm_device = self.decoder.norm.weight.device();
  c10::OptionalDeviceGuard guard;
  if (norm_device != device()) guard.reset_device(norm_device);
  return self.decoder.norm(x_th.to(norm_device));
}

Tensor CausalLM::logits(const Tensor& hidden_th, const ops::LoraMapping& adapters) {
  impl_->tie();
  if (auto& shards = impl_->decoder.shards) return shards->logits(hidden_th, {impl_->training, &adapters});
  c10::OptionalDeviceGuard guard(hidden_th.device());
  auto logits = impl_->decoder.head(hidden_th, {impl_->training, &adapters});
  auto* region = impl_->decoder.region;
  if (!region) return logits;
  return config().num_labels > 0 ? region->replicated(logits) : region->gather_vocabulary(logits);
}

Module CausalLM::tree() { return impl_->decoder.tree(); }
std::vector<Unit> CausalLM::units() { return impl_->decoder.units(); }
std::vector<NamedParameter> CausalLM::parameters() { return tree().parameters(); }

const Decoder& CausalLM::decoder() const {
  impl_->tie();
  return impl_->decoder;
}

Decoder& CausalLM::decoder() {
  impl_->tie();
  return impl_->decoder;
}

Embedding& CausalLM::embedding() { return impl_->decoder.embedding; }
const Linear& CausalLM::head() const { return decoder().head; }
Linear& CausalLM::head() { return decoder().head; }

const DecoderConfig& CausalLM::config() const { return impl_->decoder.config; }
at::Device CausalLM::device() const { return impl_->device(); }
at::ScalarType CausalLM::dtype() const { return impl_->decoder.embedding.weight.scalar_type(); }
void CausalLM::set_training(bool training) { impl_->training = training; }
bool CausalLM::training() const { return impl_->training; }

}  // namespace hone::model
