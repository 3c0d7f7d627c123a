// Any bytes as a video: the header is read or refused, and frames that are decoded have the header's size.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hone/media/decode_video.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace media = hone::media;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = media::read_video_header(bytes);
  if (!header || header->size.pixels() > 1 << 20) return 0;  // larger ones only take longer
  const std::vector<int64_t> numbers{0, header->frames / 2, header->frames - 1};
  const auto problem = media::decode_frames(bytes, numbers, [&](const media::Image& frame) {
    if (frame.size != header->size || frame.pixels.size() != static_cast<size_t>(3 * frame.size.pixels())) __builtin_trap();
  });
  (void)problem;
  return 0;
}
