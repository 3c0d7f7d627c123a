// A decoder sharded by heads and MLP width, for inference: every shard computes on its own thread, and on its own device if there
// are several; the outputs of a block are all-reduced.
#pragma once
#include "hone/model/decoder.h"
#include "hone/model/forward_input.h"
#include "hone/model/inference/tensor_parallel_workers.h"

namespace hone::model {

class CausalLM;

// Inference: computes every layer in shards from now on, one per device and all concurrently; the devices may be the same. Throws
// UserError(usage) if heads cannot be divided.
void apply_tensor_parallel(CausalLM& model, const std::vector<at::Device>& devices);
// The decoders that compute: the shards of a tensor parallel model, otherwise the model's own.
std::vector<Decoder*> computing_decoders(CausalLM& model);
bool is_tensor_parallel(const CausalLM& model);
// The shards take the model's weights again, or those of its adapters alone. No pass runs meanwhile.
void reshard(CausalLM& model);
void reshard_adapters(CausalLM& model);

class TensorParallelDecoder {
 public:
  // Throws UserError(usage) listing valid sizes if heads or widths cannot be divided.
  static void check(const DecoderConfig& config, size_t shards);
  // Throws UserError(usage) for quantized layers and for adapters other than LoRA on linear layers.
  static void check_layers(const Decoder& whole);

  // `whole` keeps the weights' names, and adapters are attached to it. One shard on each of `devices`.
  TensorParallelDecoder(const Decoder& whole, const std::vector<at::Device>& devices);

  std::vector<Decoder>& shards() { return shards_; }
  at::Device device() const { return shards_[0].embedding.weight.device(); }
  std::vector<at::Device> block_devices() const;  // shard by shard, as the blocks of the shards count the layers of a cache

  void sync_adapters(const Decoder& whole);  // adapters that came or went since
  // Hidden states after the final norm, on the first device. `forward_context_on` makes the context of a device's blocks.
  Tensor hidden(const ForwardInput& input, const std::function<std::shared_ptr<ForwardContext>(at::Device)>& forward_context_on);
  Tensor logits(const Tensor& hidden_th, const LinearContext& mode);  // each shard has a part of the vocabulary

 private:
  // An adapter as it was when the shards took it. The tensor is held, so that its address cannot be reused.
  struct AdapterVersion {
    Tensor a;  // undefined: here a layer's list ends
    bool active;
    bool operator==(const AdapterVersion& other) const { return a.is_same(other.a) && active == other.active; }
  };
  static std::vector<AdapterVersion> adapters_of(const Decoder& whole);

  std::vector<Decoder> shards_;
  TensorParallelWorkers workers_;
  std::mutex sync_mutex_;               // replicas that share a model may come for the same change
  std::vector<AdapterVersion> synced_;  // the adapters of the shards
};

}  // namespace hone::model
