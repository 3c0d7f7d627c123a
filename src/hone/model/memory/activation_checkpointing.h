// Activation checkpointing: keeps only a block's input and recomputes the block in the backward pass.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/model/memory/activation_offload.h"

namespace hone::model {

class CausalLM;

// Granularity of recomputation in the backward pass: none, full blocks, or one half of each block.
enum class Recompute { none, block, attention, mlp };

// True while a part is recomputed on this thread: its output values are not needed again, only its gradients.
bool runs_again();

using BlockFunction = std::function<TensorList(const Tensor&)>;

// block(x), with the gradients of x and of `parameters` (every trained tensor the block reads). Dropout masks are the same both
// times. `draws` false: it draws no random numbers, and the generator does not change. Meanwhile x is kept in `store`, which
// outlives the backward pass, or in place.
TensorList checkpoint(const BlockFunction& block, const Tensor& x, const TensorList& parameters,
                      ActivationOffloader* store = nullptr, bool draws = true);

struct ActivationCheckpointingConfig {
  bool enabled = true;
  Recompute what = Recompute::block;
  std::vector<int64_t> blocks;          // none given: every block
  std::optional<double> memory_budget;  // chooses both instead (activation_budget.h)
  std::optional<bool> towers;           // vision and audio towers; unset: as the language model
  bool offload = false;                 // saved inputs are kept in host memory; on a CPU they are there already
};

// `device`: where the blocks will run, which differs from their current device while parallel processes still shard them.
// `row_length`: length of the sequences, for the cost of attention in a memory budget.
void apply_activation_checkpointing(CausalLM& model, const ActivationCheckpointingConfig& config, at::Device device,
                                    int64_t row_length);
// For these blocks, or all if none are given. Saved inputs are kept in host memory if offloaded.
void apply_activation_checkpointing(CausalLM& model, Recompute what, const std::vector<int64_t>& blocks = {},
                                    std::optional<at::Device> offload_from = {});
// The same with a choice for each layer of the model, of which a pipeline stage has some.
void apply_activation_checkpointing(CausalLM& model, const std::vector<Recompute>& of_layers,
                                    std::optional<at::Device> offload_from = {});

}  // namespace hone::model
