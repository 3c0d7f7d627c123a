// The pictures and recordings of a prompt, and the positions that its tokens have because of them.
#pragma once
#include <memory>
#include <string>

#include "hone/model/forward_input.h"

namespace hone::engine {

struct PromptImages {
  model::ImageInput images;           // their rows are places in the prompt
  model::AudioInput audio;            // the same
  Tensor rows_n;                      // of both, in the order of CausalLM::encode_media
  Tensor positions_p;                 // int64 [3, prompt]; undefined: those of its places
  int64_t position_offset = 0;        // of what follows the prompt: its position less its place
  std::vector<ops::RowBlock> blocks;  // neighbouring rows of pictures
  std::string digest;                 // of the media as the towers see them; prompts that differ in it share no cached keys

  // `positions_p` may have one axis, where pictures do not change how positions count.
  static std::shared_ptr<const PromptImages> make(model::ImageInput images, Tensor positions_p, model::AudioInput audio = {});
  // Positions of the sequence's tokens [begin, begin + count), int64 [3, count]; undefined: those of their places.
  Tensor positions(int64_t begin, int64_t count) const;
};

}  // namespace hone::engine
