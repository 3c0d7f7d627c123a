// Images and audio of a prompt, and the position ids that follow from them.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "hone/model/forward_input.h"

namespace hone::engine {

// Two hashes with secret keys, since requests of different users share what is cached.
std::string keyed_digest(std::span<const std::byte> bytes);

struct PromptImages {
  model::ImageInput images;           // their rows are indices into the prompt
  model::AudioInput audio;            // the same
  Tensor rows_n;                      // of both, in the order of CausalLM::encode_media
  Tensor positions_p;                 // int64 [3, prompt]; undefined: the token indices
  int64_t position_offset = 0;        // after the prompt: position minus token index
  std::vector<ops::RowBlock> blocks;  // contiguous rows of images
  std::string digest;                 // of the towers' inputs; prompts with different digests share no cached prefix

  // `positions_p` may have one axis, if images do not change position ids.
  static std::shared_ptr<const PromptImages> make(model::ImageInput images, Tensor positions_p, model::AudioInput audio = {});
  // The images of a prompt. A template, because this component must not include data::Batch.
  template <class Batch>
  static std::shared_ptr<const PromptImages> of(Batch batch) {
    return make({std::move(batch.images.patches_pr), std::move(batch.images.grids), std::move(batch.images.rows_n)},
                std::move(batch.positions_t),
                {std::move(batch.audio.frames_fm), std::move(batch.audio.lengths), std::move(batch.audio.rows_n)});
  }
  // Positions of the sequence's tokens [begin, begin + count), int64 [3, count]; undefined: their indices.
  Tensor positions(int64_t begin, int64_t count) const;
};

}  // namespace hone::engine
