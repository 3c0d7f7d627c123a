// An audio tower: log-mel spectrogram rows in, embeddings of the language model out. Qwen2.5-Omni's and Qwen3-Omni's differ only
// by AudioConfig: in the convolutions before the blocks and in the output projection.
#pragma once
#include <optional>
#include <vector>

#include "hone/model/encoders/audio_config.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/module.h"

namespace hone::model {

// Whisper's block: attention and an MLP, each after a LayerNorm.
struct AudioBlock {
  std::string name;  // "thinker.audio_tower.layers.0"
  Norm attention_norm, mlp_norm;
  Linear q, k, v, out, fc1, fc2;

  Module module();
};

struct AudioTower {
  AudioConfig config;
  std::vector<Linear>
      convolutions;  // weights [out, in, 3] or [out, in, 3, 3]; the first strides over time only where it is of three
  std::optional<Linear> conv_out;  // makes rows of what three convolutions leave
  std::vector<AudioBlock> blocks;
  Norm norm;
  std::vector<Linear> projector;  // proj; or proj1 and proj2 with a GELU between
  Recompute recompute = Recompute::none;

  Module module();
  // frames_fm is [frames, mel bins] of all recordings, `lengths` the frames of each. One row per token, [tokens, hidden]: the
  // result of a recording does not depend on the others. Without a trained weight no graph is kept.
  Tensor forward(const Tensor& frames_fm, const std::vector<int64_t>& lengths, const LinearContext& mode);

 private:
  Tensor embed_recording(const Tensor& frames_fm, const LinearContext& mode) const;
};

AudioTower audio_skeleton(const AudioConfig& config);

}  // namespace hone::model
