// The model input of a batch. Used by losses, references and evaluation.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/model/forward_input.h"

namespace hone::train {

model::ForwardInput forward_input(const data::Batch& batch);

}  // namespace hone::train
