// A decoder-only language model in one process; it knows nothing of ranks, optimizers or file layouts.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/model/config.h"
#include "hone/model/distributed_attention.h"
#include "hone/model/forward_input.h"
#include "hone/model/layers.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/memory/placement.h"
#include "hone/model/model_overrides.h"
#include "hone/model/weight_hooks.h"

namespace hone::model {

class PagedKvCache;
struct Block;

struct LoadOptions {
  std::optional<at::ScalarType> dtype;  // unset: the checkpoint's own
  at::Device device{at::kCPU};
  ModelOverrides changes;
  DeviceMap places =
      {};  // what does not lie on `device`. A block is on one device, and the norm behind the last one with the head.
};

class CausalLM {
 public:
  // Reads config.json and the safetensors of a Hugging Face folder. Throws UserError naming missing or misshapen tensors; warns
  // of extra ones.
  static std::unique_ptr<CausalLM> load(const std::filesystem::path& folder, const LoadOptions& options = {});
  // Random weights (normal, std initializer_range), for tests and train_from_scratch.
  static std::unique_ptr<CausalLM> random(const DecoderConfig& config, uint64_t seed, const LoadOptions& options = {});
  ~CausalLM();

  // Hidden states after the final norm, [T, hidden]. With a cache, the segments continue the sequences of its plan.
  // `router_logits`, where given, gets [T, experts] of every layer that has experts, from the first to the last.
  Tensor hidden_states(const ForwardInput& input, PagedKvCache* cache = nullptr, TensorList* router_logits = nullptr);

  // Its stages, each by itself: hidden_states is final_norm(run_blocks(embed(input), …)). Not for a model in tensor parallel
  // slices, which computes whole passes.
  Tensor embed(const ForwardInput& input);  // [T, hidden], before the first block
  // x_th behind block `end` - 1, [T, hidden] before block `begin`; of `input` the blocks read positions and segments.
  Tensor run_blocks(Tensor x_th, int64_t begin, int64_t end, const ForwardInput& input, PagedKvCache* cache = nullptr,
                    TensorList* router_logits = nullptr);
  Tensor final_norm(const Tensor& x_th);
  // [T, vocabulary]; training uses ops::linear_cross_entropy on head() instead
  Tensor logits(const Tensor& hidden_th, const ops::LoraMapping& adapters = {});
  // Inference: projections that read the same input become one product, where that pays and nothing trains them.
  void fuse_projections();
  // Training on a GPU: the same, for whatever trains them (ops/linear/joint_linear.h). Tensors that train stay the same tensors.
  void join_trained_projections();
  // Inference: from now on every layer is computed in slices, one on each device and all at a time; the devices may be the same.
  // The weights as they are stay behind, for adapters to be attached to. Throws UserError(usage) where heads cannot be divided.
  void apply_tensor_parallel(const std::vector<at::Device>& devices);
  Block& block(int64_t index);
  // Inference on the CPU: linear layers compute with weights of 8 or 4 bits from now on, and the originals are let go.
  void quantize(int bits);
  const Linear& head() const;  // when tied, its weight is the embedding's tensor
  Linear& head() { return const_cast<Linear&>(static_cast<const CausalLM*>(this)->head()); }
  const Linear* value_head() const;  // null: there is none
  void untie_head();                 // from now on the head is a layer of its own, and listed as one

  const DecoderConfig& config() const;
  at::Device device() const;                      // of the embedding, and of what goes in
  std::vector<at::Device> block_devices() const;  // of each block; of slices, those of each slice in turn
  std::vector<at::Device> devices() const;        // each once, device() first
  at::ScalarType dtype() const;

  std::vector<Linear*> linears();    // in order of depth; the head last, absent when tied
  std::vector<AdapterSlot> slots();  // all that can carry low-rank updates: the embedding first, then in order of depth
  Embedding& embedding();
  std::vector<NamedParameter>
  parameters();  // base weights in Hugging Face order, adapters not included; a tied head is listed once
  // Adapter tensors, PEFT's names without the "base_model.model." prefix:
  // "model.layers.0.self_attn.q_proj.lora_A.<adapter>.weight".
  std::vector<NamedParameter> adapter_parameters();

  // Whether a training pass is the same launches for every batch of a shape, so that it can be captured and replayed.
  bool repeats_launches() const;
  void set_training(bool training);  // dropout, NEFTune and recomputation act only in training
  bool training() const;
  void set_recompute(Recompute what, std::vector<int64_t> blocks = {});  // in these blocks; none given: in all
  void set_activation_offload(bool offload);                             // what recomputation keeps waits in host memory
  void set_neftune(double alpha);
  void set_shifted_attention(bool shifted);  // LongLoRA's, in training
  // From now on the layers of all blocks but the very first one compute with 8-bit floats, where their sizes are multiples of 16.
  void use_float8();

  // Every parameter and adapter tensor, by what is used together: the blocks in order, then the rest.
  std::vector<ParameterUnit> parameter_units();
  void set_distributed_attention(
      DistributedAttention* split);  // without a cache, tokens and positions are then a part of what the segments describe
  void set_weight_hooks(WeightHooks* residency);  // told of each part as parts() numbers them; null: all weights are always here

 private:
  struct Impl;
  explicit CausalLM(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::model
