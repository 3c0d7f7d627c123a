// Tensors of a model's folder that are neither computed with nor trained: the talker of an Omni model.
#pragma once
#include <vector>

#include "hone/io/safetensors.h"
#include "hone/model/causal_lm.h"

namespace hone::tuner {

// Adds them, unchanged, to the tensors written under the model's names.
void append_carried(model::CausalLM& model, std::vector<io::TensorSource>& sources);

}  // namespace hone::tuner
