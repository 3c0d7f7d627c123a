// A decoder-only language model in one process; independent of ranks, optimizers and file layouts.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/model/config.h"
#include "hone/model/distributed_attention.h"
#include "hone/model/forward_input.h"
#include "hone/model/memory/placement.h"
#include "hone/model/model_overrides.h"
#include "hone/model/module.h"
#include "hone/model/weight_hooks.h"

namespace hone::model {

class PagedKvCache;
class TowerCache;
class TensorParallelDecoder;
struct Decoder;

struct LoadOptions {
  std::optional<at::ScalarType> dtype;  // unset: the checkpoint's own
  at::Device device{at::kCPU};
  ModelOverrides changes;
  // Modules that are not on `device`. A block is on one device, and the final norm is with the head.
  DeviceMap places = {};
};

class CausalLM {
 public:
  // Reads config.json and the safetensors of a Hugging Face folder. Throws UserError naming missing or misshapen tensors; warns
  // about extra ones.
  static std::unique_ptr<CausalLM> load(const std::filesystem::path& folder, const LoadOptions& options = {});
  // Random weights (normal, std initializer_range), for tests and train_from_scratch.
  static std::unique_ptr<CausalLM> random(const DecoderConfig& config, uint64_t seed, const LoadOptions& options = {});
  // Names and shapes without weights, for checks before anything is read.
  static std::unique_ptr<CausalLM> skeleton(const DecoderConfig& config);
  ~CausalLM();

  // Hidden states after the final norm, [T, hidden], or of the input's output rows. With a cache, the segments continue the
  // sequences of its plan. `router_logits`, where given, gets [T, experts] of every layer that has experts, from the first to the
  // last. Of blocks in pipeline stages the last one has the states; on others they have no values.
  Tensor hidden_states(const ForwardInput& input, PagedKvCache* cache = nullptr, TensorList* router_logits = nullptr);

  // Its stages: hidden_states is final_norm(run_blocks(embed(encode(input)), …)). Not for a tensor parallel inference model,
  // which only computes full passes.
  EncoderEmbeddings encode_media(const ImageInput& images, const AudioInput& audio);  // by the towers; rows of images first
  ForwardInput encode(const ForwardInput& input);  // what the towers compute of its media in their place
  // The same with features that an earlier pipeline stage computed for the rows of media_rows().
  ForwardInput with_features(const ForwardInput& input, EncoderEmbeddings features) const;
  EncoderEmbeddings media_rows(const ForwardInput& input) const;  // on this rank, without features
  // Caches the outputs of frozen towers from now on; all weights are present. Throws UserError if every tower trains.
  void set_tower_cache(std::shared_ptr<TowerCache> cache);
  Tensor embed(const ForwardInput& input);  // [T, hidden], before the first block; media are encoded before
  // x_th after block `end` - 1, from [T, hidden] before block `begin`; the blocks read positions and segments from `input`.
  Tensor run_blocks(Tensor x_th, int64_t begin, int64_t end, const ForwardInput& input, PagedKvCache* cache = nullptr,
                    TensorList* router_logits = nullptr);
  Tensor final_norm(const Tensor& x_th);
  // [T, vocabulary], also if ranks have parts of the head; training uses ops::linear_cross_entropy on head() instead
  Tensor logits(const Tensor& hidden_th, const ops::LoraMapping& adapters = {});
  int64_t logits_size() const;  // its columns
  const Linear& head() const;   // when tied, its weight is the embedding's tensor
  Linear& head() { return const_cast<Linear&>(static_cast<const CausalLM*>(this)->head()); }
  const Linear* value_head() const;  // null: there is none
  Embedding& embedding();

  const DecoderConfig& config() const;
  at::Device device() const;                      // of the embedding, and of what goes in
  std::vector<at::Device> block_devices() const;  // of each block; of slices, those of each slice in turn
  std::vector<at::Device> devices() const;        // each once, device() first
  at::ScalarType dtype() const;

  Module tree();                             // by the names of its files; a tied head is marked
  std::vector<Unit> units();                 // in the order of a forward pass: the one numbering of what is handled as a whole
  std::vector<NamedParameter> parameters();  // of the tree, adapters not included
  // The modules, for external transformations: tuners, quantization, checkpointing, fused projections.
  Decoder& decoder();
  // The decoders that compute: the shards of a tensor parallel model, otherwise the model itself.
  std::vector<Decoder*> computing_decoders();

  // Whether a training pass makes the same launches for every batch of a shape, so that it can be captured and replayed.
  bool repeats_launches() const;
  void set_training(bool training);  // dropout, NEFTune and recomputation act only in training
  bool training() const;

  void set_distributed_attention(
      DistributedAttention* split);  // without a cache, tokens and positions are then a part of what the segments describe
  void set_weight_hooks(WeightHooks* hooks);  // called for each unit by its number; null: all weights are always here
  bool has_weight_hooks() const;
  // Computes every layer in shards from now on; the unsharded weights are kept, so that adapters can be attached.
  void set_slices(std::unique_ptr<TensorParallelDecoder> slices);
  bool is_sliced() const;

 private:
  struct Impl;
  explicit CausalLM(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::model
