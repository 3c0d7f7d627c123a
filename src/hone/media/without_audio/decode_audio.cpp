#include "hone/media/decode_audio.h"

namespace hone::media {
namespace {

Error no_audio_decoders() {
  return error("this build has no audio decoders; install libsndfile1-dev and libsoxr-dev and build again");
}

}  // namespace

Result<AudioHeader> read_audio_header(std::string_view) { return no_audio_decoders(); }
Result<std::vector<float>> decode_audio(std::string_view, int64_t) { return no_audio_decoders(); }

}  // namespace hone::media
