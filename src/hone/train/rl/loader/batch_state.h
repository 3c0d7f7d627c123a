// Batches of a rollout in a checkpoint, since generated rows are in no dataset file.
#pragma once
#include "hone/base/json.h"
#include "hone/data/batches/batch.h"

namespace hone::train::rl {

Json batch_to_json(const data::Batch& batch);
data::Batch batch_from_json(const Json& json);  // throws Json::exception for what batch_to_json did not make

}  // namespace hone::train::rl
