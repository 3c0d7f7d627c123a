// Of a model's files each stage reads what it computes with; the rest has its shape and no values (device/placeholder.h).
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/parallel/pipeline/stage_layout.h"

namespace hone::parallel {

// The parts that other ranks read, for loading: they lie on no device (meta).
model::DeviceMap parts_elsewhere(const model::DecoderConfig& config, const StageLayout& layout, int rank);
// After loading with them, before anybody looks at a weight.
void make_placeholders(model::CausalLM& model);

}  // namespace hone::parallel
