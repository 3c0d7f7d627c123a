// The audio track of a container that FFmpeg reads: a video, M4A, WebM.
#pragma once
#include "hone/media/decode_audio.h"

namespace hone::media {

// Whether these bytes are such a container, by their header.
bool has_tracks(std::string_view bytes);

// Samples are counted from the index of an MP4, or by decoding. Errors: no audio, an unsupported codec, longer than kMostSeconds.
Result<AudioHeader> read_track_header(std::string_view bytes);

// The mean of all channels at the file's own rate, `header.samples` of them, as 16-bit samples like librosa through ffmpeg.
struct AudioTrack {
  AudioHeader header;
  std::vector<float> samples;
};
Result<AudioTrack> decode_track(std::string_view bytes);

}  // namespace hone::media
