// Video files: what a file says of itself, and chosen frames of it. A rotation is ignored; audio_track.h reads the sound.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "hone/base/error.h"
#include "hone/media/image.h"

namespace hone::media {

struct VideoHeader {
  ImageSize size;
  int64_t frames = 0;         // that are shown
  int64_t stated_frames = 0;  // as the header has it; 0: it does not say
  double fps = 0;             // on average
  double seconds = 0;         // of the pictures; 0: the file does not say
};

inline constexpr size_t kMostVideoBytes = size_t{4} << 30;
inline constexpr int64_t kMostFramePixels = 8192 * 8192;

// MP4, MOV, Matroska, WebM, AVI, MPEG-TS and MPEG-PS; the content decides, not the file's name. No frame is decoded but those
// that FFmpeg looks at to know the format. Errors: empty, another format, truncated, no pictures, too large, no FFmpeg here.
Result<VideoHeader> read_video_header(std::string_view bytes);

// Gives the frames with these numbers, which must ascend and may repeat, to `take` in RGB, one at a time: what one group of
// pictures needs is all that is held. The error of a frame that is not there, damaged or of another size than the header says.
using TakeFrame = std::function<void(const Image& frame)>;
std::optional<Error> decode_frames(std::string_view bytes, std::span<const int64_t> numbers, const TakeFrame& take);

}  // namespace hone::media
