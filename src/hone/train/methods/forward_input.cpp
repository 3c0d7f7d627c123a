#include "hone/train/methods/forward_input.h"

namespace hone::train {

model::ForwardInput forward_input(const data::Batch& batch) {
  model::ForwardInput input{.tokens_t = batch.tokens_t, .positions_t = batch.positions_t, .segments = batch.segments};
  input.offsets_s = batch.offsets_s;
  input.images = {batch.images.patches_pr, batch.images.grids, batch.images.rows_n};
  input.audio = {batch.audio.frames_fm, batch.audio.lengths, batch.audio.rows_n};
  return input;
}

}  // namespace hone::train
