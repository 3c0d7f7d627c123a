// A decoder-only language model in one process; independent of ranks, optimizers and file layouts. Everything else that is done
// with a model works on its tree, its units or its decoder from outside: tuners, quantization, sharding, activation
// checkpointing.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/model/config.h"
#include "hone/model/forward_input.h"
#include "hone/model/memory/placement.h"
#include "hone/model/model_overrides.h"
#include "hone/model/module.h"

namespace hone::model {

class PagedKvCache;
struct Decoder;

struct LoadOptions {
  std::optional<at::ScalarType> dtype;  // unset: the checkpoint's own
  at::Device device{at::kCPU};
  ModelOverrides changes;
  // Devices of modules that are not on `device`. A block is on one device; the final norm is on the head's.
  DeviceMap device_map = {};
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

  // Hidden states after the final norm, [T, hidden], or only of the input's output rows. With a cache, the segments continue the
  // sequences of its metadata. `router_logits` gets [T, experts] of every layer that has experts, from the first to the last.
  // With pipeline stages, only the last stage has the values of the states.
  Tensor hidden_states(const ForwardInput& input, PagedKvCache* cache = nullptr, TensorList* router_logits = nullptr);

  // Its stages: hidden_states is final_norm(run_blocks(embed(encode(input)), …)). Not for a tensor parallel inference model,
  // which only computes full passes.
  ForwardInput encode(const ForwardInput& input);  // replaces media by the features that the towers compute of them
  Tensor embed(const ForwardInput& input);         // [T, hidden], the input of the first block; media are already encoded
  // x_th after block `end` - 1, from [T, hidden] before block `begin`; the blocks read positions and segments from `input`.
  Tensor run_blocks(Tensor x_th, int64_t begin, int64_t end, const ForwardInput& input, PagedKvCache* cache = nullptr,
                    TensorList* router_logits = nullptr);
  Tensor final_norm(const Tensor& x_th);
  // [T, vocabulary], also with a sharded head; training uses ops::linear_cross_entropy on head() instead.
  Tensor logits(const Tensor& hidden_th, const ops::LoraMapping& adapters = {});

  Module tree();                             // by the names of its files; a tied head is marked
  std::vector<Unit> units();                 // FSDP units in the order of a forward pass; their only numbering
  std::vector<NamedParameter> parameters();  // of the tree, adapters not included
  Decoder& decoder();                        // the modules and their setup
  const Decoder& decoder() const;
  Embedding& embedding();
  Linear& head();  // when tied, its weight is the embedding's tensor
  const Linear& head() const;

  const DecoderConfig& config() const;
  at::Device device() const;  // of the embedding and of inputs
  at::ScalarType dtype() const;
  void set_training(bool training);  // dropout, NEFTune and recomputation act only in training
  bool training() const;

 private:
  struct Impl;
  explicit CausalLM(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::model
