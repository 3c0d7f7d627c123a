// AdaLoRA in training: wraps the optimizer according to the adapter's config.
#pragma once
#include <memory>

#include "hone/optim/optimizer.h"
#include "hone/parallel/collectives/process_group.h"
#include "hone/tuner/tuner.h"

namespace hone::train {

// The optimizer itself, unless an AdaLoRA adapter is trained. Pipeline stages rank their layers together (null: there are none),
// with values on `device`.
std::unique_ptr<optim::Optimizer> with_rank_allocation(std::unique_ptr<optim::Optimizer> optimizer, const tuner::Tuned& tuned,
                                                       int64_t steps, parallel::ProcessGroup* stages, at::Device device);

}  // namespace hone::train
