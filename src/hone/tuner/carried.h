// Tensors of a model's folder that it neither computes with nor trains: the talker of an Omni model.
#pragma once
#include <vector>

#include "hone/io/safetensors.h"
#include "hone/model/causal_lm.h"

namespace hone::tuner {

// Adds them, as they are stored, to what is written under the model's names.
void append_carried(model::CausalLM& model, std::vector<io::TensorSource>& sources);

}  // namespace hone::tuner
