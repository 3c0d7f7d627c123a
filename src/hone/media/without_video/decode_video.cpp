#include "hone/media/decode_video.h"

namespace hone::media {
namespace {

Error no_decoders() {
  return error(
      "this build reads no video files; install libavformat-dev, libavcodec-dev and libswscale-dev and build again, or give a "
      "list of frames");
}

}  // namespace

Result<VideoHeader> read_video_header(std::string_view) { return no_decoders(); }

std::optional<Error> decode_frames(std::string_view, std::span<const int64_t>, const TakeFrame&) { return no_decoders(); }

}  // namespace hone::media
