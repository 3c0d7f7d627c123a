#include "hone/media/audio_track.h"

namespace hone::media {
namespace {

Error no_track_decoders() {
  return error(
      "this build reads no sound of videos; install libavformat-dev, libavcodec-dev and libswscale-dev and build again, or give "
      "the sound as WAV, FLAC, OGG or MP3");
}

}  // namespace

bool has_tracks(std::string_view) { return false; }

Result<AudioHeader> read_track_header(std::string_view) { return no_track_decoders(); }

Result<AudioTrack> decode_track(std::string_view) { return no_track_decoders(); }

}  // namespace hone::media
