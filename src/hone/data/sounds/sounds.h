// Audio of a row: headers are read when the row is encoded, and the audio is decoded when its batch is built.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/data/conversation.h"
#include "hone/data/encode/pictures.h"
#include "hone/media/decode_audio.h"

namespace hone::data {

// How a family counts frames and tokens.
enum class SoundRule {
  qwen2_5_omni,  // padded or truncated to 300 seconds; four frames per token
  qwen3_omni,    // whole frames of 160 samples; 13 tokens for 100 frames
};

// The audio settings of a model.
struct SoundConfig {
  SoundRule rule = SoundRule::qwen2_5_omni;
  int64_t mel_bins = 128;
  int64_t most_seconds = 300;  // qwen2_5_omni: chunk_length of preprocessor_config.json
  media::SourceRules sources;
  text::TokenId start = -1, pad = -1, end = -1;  // <|audio_bos|><|AUDIO|>…<|audio_eos|>
};

struct Sound {
  std::string source;
  media::AudioHeader header;
  int64_t samples = 0, frames = 0, tokens = 0;  // at 16,000 samples a second; of the spectrogram; placeholders
  std::shared_ptr<const SoundConfig> config;
  size_t first = 0;                    // of its placeholders in the ids of the sample
  std::vector<size_t> scattered = {};  // where they are, if they are mixed with those of a video

  size_t position(int64_t i) const {
    return scattered.empty() ? first + static_cast<size_t>(i) : scattered[static_cast<size_t>(i)];
  }
};

// Frames and tokens for this many samples; no tokens: too short.
struct SoundSize {
  int64_t samples = 0, frames = 0, tokens = 0;
};
SoundSize sound_size(int64_t samples, const SoundConfig& config);

// Reads the length of each recording without decoding. Errors name the recording.
Result<std::vector<Sound>> open_sounds(const std::vector<std::string>& sources, const std::shared_ptr<const SoundConfig>& config);

// `messages`, whose images are already marked, with markers in place of each tag. Throws text::FormatError if the rule is
// violated.
void mark_sounds(std::vector<Message>& messages, const std::vector<Sound>& sounds, TagRule rule, const std::string& tag);

// "audio a.wav: 1.5 seconds at 44100 Hz, 150 frames, 38 tokens", for display.
std::string describe(const Sound& sound);

// The decoded spectrogram of one recording: `frames` rows of mel_bins floats.
Result<std::vector<float>> mel_rows(const Sound& sound);

}  // namespace hone::data
