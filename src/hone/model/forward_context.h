// State that all blocks share in one forward pass, in addition to the hidden states.
#pragma once
#include <memory>

#include "hone/model/distributed_attention.h"
#include "hone/model/inference/paged_kv_cache.h"
#include "hone/model/layers.h"
#include "hone/model/module_observer.h"
#include "hone/model/rotary/rotary_embedding.h"
#include "hone/model/tensor_parallel/region.h"
#include "hone/ops/attention/attention.h"
#include "hone/ops/attention/shifted_attention.h"
#include "hone/ops/linear_attention/linear_attention_metadata.h"
#include "hone/ops/moe/expert_dispatcher.h"

namespace hone::model {

class ActivationOffloader;
class RecurrentStates;
struct Decoder;
struct ForwardInput;

struct ForwardContext {
  ops::AttentionMetadata attention;
  std::shared_ptr<const ops::LinearAttentionMetadata> linear_attention = {};    // of models with gated delta nets
  std::shared_ptr<const ops::ShiftedAttentionMetadata> shifted_attention = {};  // LongLoRA's; null: attention is full
  ops::RopeTable rope, local_rope = {};                                         // local: of layers with a sliding window
  LinearContext linear;
  PagedKvCache* cache = nullptr;
  RecurrentStates* states = nullptr;                      // of linear attention, with a cache; null: it starts from zero
  DistributedAttention* distributed_attention = nullptr;  // null: all positions are on this rank
  TensorParallelRegion* region = nullptr;                 // null: layers are not sharded
  ops::ExpertDispatcher* expert_dispatcher = nullptr;     // null: all experts of a block are on its device
  ActivationOffloader* offloader = nullptr;               // null: inputs of recomputed blocks stay on the device
  ModuleObserver* observer = nullptr;                     // null: module boundaries are not observed
  TensorList* router_logits = nullptr;                    // gets those of every layer that has experts
  Tensor output_rows_r = {};                              // of the last block: the rows that are read; undefined: all
  Tensor routed_experts_tlk = {};                         // router replay; undefined: routers choose
};

// The context of a pass of `input` on one device; without a cache, every segment starts at its first position.
std::shared_ptr<ForwardContext> make_forward_context(const Decoder& decoder, const ForwardInput& input,
                                                     const RotaryTables& rotary, PagedKvCache* cache, bool training,
                                                     at::Device device);

}  // namespace hone::model
