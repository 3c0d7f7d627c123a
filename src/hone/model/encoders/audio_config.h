// The config of an audio tower, in one form for Qwen2.5-Omni and Qwen3-Omni.
#pragma once
#include <cstdint>
#include <string>

#include "hone/base/json.h"

namespace hone::model {

struct AudioConfig {
  int64_t layers = 0, hidden_size = 0, intermediate_size = 0, heads = 0;
  int64_t mel_bins = 128;
  int64_t out_hidden_size = 0;   // the language model's width
  int64_t chunk = 200;           // frames that convolutions and positions process together
  int64_t chunks_in_window = 1;  // within which attention works
  int64_t max_positions = 1500;
  int64_t image_channels = 0;  // above 0: three convolutions over mel bins and time (Qwen3-Omni); else two over time
  bool has_key_bias = false;
  std::string tower = "thinker.audio_tower";

  int64_t head_dim() const { return hidden_size / heads; }
  bool pools_pairs() const { return image_channels == 0; }  // two rows become one embedding
  // Mel bins left after the three convolutions.
  int64_t image_bins() const { return (((mel_bins + 1) / 2 + 1) / 2 + 1) / 2; }
  // Rows of a chunk with this many frames after the convolutions, and embeddings of a full recording.
  int64_t rows_of(int64_t frames) const;
  int64_t tokens_of(int64_t frames) const;
  // A parameter of the tower or of its output projection.
  bool is_of_tower(const std::string& name) const { return name.starts_with(tower + "."); }
  bool is_of_projector(const std::string& name) const { return name.starts_with(tower + ".proj"); }
};

// `hf` is audio_config of config.json. Throws UserError(bad_checkpoint) naming the field.
AudioConfig qwen2_5_omni_audio(const Json& hf);
AudioConfig qwen3_omni_audio(const Json& hf);

}  // namespace hone::model
