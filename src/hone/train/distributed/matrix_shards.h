// Full matrices of models that are sharded across processes, for optimizers whose update of an element depends on the rest of its
// matrix.
#pragma once
#include "hone/optim/optimizer.h"
#include "hone/train/loaded_model.h"

namespace hone::train {

// `working` are the tensors that the models compute with.
optim::MatrixShards matrix_shards(const SessionModels& models, const std::vector<optim::ParameterGroup>& working);

}  // namespace hone::train
