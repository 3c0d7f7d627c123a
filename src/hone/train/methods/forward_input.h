// What a batch gives the model to read. Losses, references and evaluation all ask here.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/model/forward_input.h"

namespace hone::train {

model::ForwardInput forward_input(const data::Batch& batch);

}  // namespace hone::train
