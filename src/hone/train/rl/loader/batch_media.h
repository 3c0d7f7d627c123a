// Media of a rollout's batches that are not those of the rows: images of environments and turns, for checkpoints.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/train/rl/prompts.h"
#include "hone/train/rl/rollout_batch.h"

namespace hone::train::rl {

// As own_media_json, for a batch. Holds the content of images, so it is shared when a position is copied. Null: the rows' media.
using BatchMedia = std::shared_ptr<const Json>;

BatchMedia batch_media_from(Json own);
std::vector<BatchMedia> media_of_batches(const RolloutBatch& draw, size_t batches);

// Restores the media of a batch from a checkpoint, which identifies the rows whose media the batch contains, and has `own`.
void restore_media(data::Batch& batch, const BatchMedia& own, const Prompts& prompts);

}  // namespace hone::train::rl
