// Video files: metadata, and selected frames. Rotation is ignored; audio_track.h reads the audio.
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
  int64_t stated_frames = 0;  // as the header has it; 0: it has none
  double fps = 0;             // on average
  double seconds = 0;         // of the pictures; 0: unknown
};

inline constexpr size_t kMostVideoBytes = size_t{4} << 30;
inline constexpr int64_t kMostFramePixels = 8192 * 8192;

// MP4, MOV, Matroska, WebM, AVI, MPEG-TS and MPEG-PS; detected by content, not by file name. Decodes only the frames that FFmpeg
// needs for detection. Errors: empty, unsupported format, truncated, no images, too large, FFmpeg missing.
Result<VideoHeader> read_video_header(std::string_view bytes);

// Passes the frames with these indices, ascending and possibly repeated, to `take` in RGB, one at a time; holds at most one group
// of pictures. Errors: a frame that is missing, damaged or of another size than the header says.
using TakeFrame = std::function<void(const Image& frame)>;
std::optional<Error> decode_frames(std::string_view bytes, std::span<const int64_t> numbers, const TakeFrame& take);

}  // namespace hone::media
