// Activation checkpointing: keeps only a block's input and recomputes the block in the backward pass.
#pragma once
#include <functional>
#include <vector>

#include "hone/device/tensor.h"
#include "hone/model/memory/activation_offload.h"

namespace hone::model {

class CausalLM;

// What runs again in the backward pass instead of being kept: nothing, full blocks, or one half of each block.
enum class Recompute { none, block, attention, mlp };

// True while a part runs again on this thread: the values of what it gives were used already, and only its gradients are asked
// for.
bool runs_again();

using BlockFunction = std::function<TensorList(const Tensor&)>;

// block(x), with the gradients of x and of `parameters` (every trained tensor the block reads). Dropout draws the same masks both
// times. `draws` false says that it draws nothing, and the generator is left alone. Meanwhile x waits in `store`, which outlives
// the backward pass, or where it is.
TensorList checkpoint(const BlockFunction& block, const Tensor& x, const TensorList& parameters,
                      ActivationOffloader* store = nullptr, bool draws = true);

// Of these blocks, all where none are given. `offload`: what they keep waits in host memory.
void apply_activation_checkpointing(CausalLM& model, Recompute what, const std::vector<int64_t>& blocks = {},
                                    bool offload = false);
// The same with a choice for each layer of the model, of which a pipeline stage has some.
void apply_activation_checkpointing(CausalLM& model, const std::vector<Recompute>& of_layers, bool offload = false);

}  // namespace hone::model
