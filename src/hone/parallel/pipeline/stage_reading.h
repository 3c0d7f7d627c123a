// Each stage reads only its own tensors from a model's files; the others are placeholders with a shape (device/placeholder.h).
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/parallel/pipeline/stage_layout.h"

namespace hone::parallel {

// The parts of other ranks, for loading: they are on the meta device.
model::DeviceMap parts_elsewhere(const model::DecoderConfig& config, const StageLayout& layout, int rank);
// Call it after loading with them, before any weight is read.
void make_placeholders(model::CausalLM& model);

}  // namespace hone::parallel
