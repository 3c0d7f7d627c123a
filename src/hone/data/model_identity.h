// Facts about a model folder that the encoding of rows depends on.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "hone/base/json.h"

namespace hone::data {

// The part that the encoder uses: the default template, and how the model takes images, videos and audio.
struct ModelIdentity {
  std::string name;  // last part of the folder or hub id
  std::string model_type, architecture;
  Json vision;                         // config.json's vision_config of a model that is read with its tower; null: it takes text
  std::optional<int64_t> image_token;  // config.json's image_token_id
  int64_t tokens_per_image = 256;      // config.json's mm_tokens_per_image (Gemma 3)
  Json image_processor;                // preprocessor_config.json; null where there is none
  Json audio;                          // config.json's audio_config of a model with an audio encoder; null: it has none
  double position_rate = 0;            // positions per second of video (Omni); 0: by vision_config
  double chunk_seconds = 2;            // of a video and its sound, interleaved (Qwen2.5-Omni)
  Json video_processor;                // video_preprocessor_config.json, likewise
};
// Without a config.json, only the name. Throws UserError(bad_checkpoint) for one that cannot be read.
ModelIdentity read_model_identity(const std::filesystem::path& folder);

}  // namespace hone::data
