// Decodes WAV, FLAC, OGG and MP3, and through FFmpeg the audio of M4A, WebM and videos, to mono float32 samples, and resamples as
// librosa does.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "hone/base/error.h"

namespace hone::media {

struct AudioHeader {
  int64_t samples = 0;  // of a channel
  int64_t rate = 0;     // of them in a second
  int channels = 0;

  double seconds() const { return static_cast<double>(samples) / static_cast<double>(rate); }
};

inline constexpr double kMostSeconds = 3600;  // of one recording

// Errors: an implausible rate or number of channels.
std::optional<Error> check_sound_format(int64_t rate, int64_t channels);

// How many samples a recording has at another rate.
int64_t samples_at(const AudioHeader& header, int64_t rate);

// The format is detected by content, not by file name. Nothing is decoded. Errors: empty, unsupported format, truncated, no
// samples, longer than kMostSeconds, a build without the decoders.
Result<AudioHeader> read_audio_header(std::string_view bytes);

// The mean of all channels at `rate`, samples_at(header, rate) of them.
Result<std::vector<float>> decode_audio(std::string_view bytes, int64_t rate);

}  // namespace hone::media
