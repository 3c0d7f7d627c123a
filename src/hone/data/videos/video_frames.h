// Selects the frames of a video file, and their timestamps.
#pragma once
#include <vector>

#include "hone/data/encode/pictures.h"
#include "hone/media/decode_video.h"

namespace hone::data {

struct ChosenFrames {
  std::vector<int64_t> numbers;  // ascending; as many as the tower joins, or a multiple: the last one is repeated
  std::vector<double> seconds;   // when each of them is shown
  double fps = 0;                // of the chosen ones
};

// As qwen_vl_utils chooses: `fps` frames of a second within the bounds, evenly from the first to the last. LLaMA-Factory rounds
// down and takes at most `max_frames`. With `segments`, one frame of each: from its middle (InternVL) or its start (Ovis2.5).
Result<ChosenFrames> choose_frames(const media::VideoHeader& header, const PictureConfig& config);

// A video file's header, with the frames chosen from it.
struct OpenedVideo {
  std::shared_ptr<const media::VideoHeader> file;
  ChosenFrames chosen;
};
Result<OpenedVideo> open_video(const std::string& source, const PictureConfig& config);
Error video_error(const std::string& source, const std::string& why);  // names the video

}  // namespace hone::data
