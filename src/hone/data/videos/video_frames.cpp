#include "hone/data/videos/video_frames.h"

#include <algorithm>
#include <cmath>

#include "hone/data/videos/videos.h"
#include "hone/device/tensor.h"

namespace hone::data {
namespace {

int64_t whole_groups(double count, int64_t factor) {
  return static_cast<int64_t>(std::floor(count / static_cast<double>(factor))) * factor;
}

void set_times(ChosenFrames& chosen, const media::VideoHeader& header) {
  for (int64_t number : chosen.numbers) chosen.seconds.push_back(static_cast<double>(number) / header.fps);
}

// torch's linspace in float32, rounded half to even.
Result<ChosenFrames> utils_frames(const media::VideoHeader& header, const VideoConfig& video, int64_t factor) {
  const auto total = static_cast<double>(header.frames);
  const double least = static_cast<double>((video.min_frames + factor - 1) / factor * factor),
               most = static_cast<double>(std::min(video.max_frames, header.frames) / factor * factor);
  const int64_t count = whole_groups(std::min({std::max(total / header.fps * video.fps, least), most, total}), factor);
  if (count < factor) return error("frames: {}; expected at least {}", header.frames, factor);
  const auto places = at::linspace(0, total - 1, count, at::kFloat).round().to(at::kLong);
  ChosenFrames chosen{{places.const_data_ptr<int64_t>(), places.const_data_ptr<int64_t>() + count}, {}, 0};
  set_times(chosen, header);
  chosen.fps = static_cast<double>(count) / total * header.fps;
  return chosen;
}

// numpy's linspace, truncated to integers. For a file of unknown frame count, the first frames.
ChosenFrames factory_frames(const media::VideoHeader& header, const VideoConfig& video, int64_t factor) {
  const int64_t total = std::min(header.stated_frames > 0 ? header.stated_frames : video.max_frames, header.frames);
  const double wanted = std::floor(header.seconds * video.fps);
  int64_t count = std::min(total, video.max_frames);
  if (header.stated_frames > 0 && wanted < static_cast<double>(count)) count = std::max<int64_t>(static_cast<int64_t>(wanted), 1);
  const double step = count > 1 ? static_cast<double>(total - 1) / static_cast<double>(count - 1) : 0;
  ChosenFrames chosen;
  for (int64_t i = 0; i < count; ++i)
    chosen.numbers.push_back(count > 1 && i == count - 1 ? total - 1 : static_cast<int64_t>(static_cast<double>(i) * step));
  for (int64_t number : chosen.numbers)
    chosen.seconds.push_back(static_cast<double>(number) / header.fps * video.fps / video.fps);
  chosen.fps = header.seconds > 0 ? static_cast<double>(count) / header.seconds : video.fps;
  while (static_cast<int64_t>(chosen.numbers.size()) % factor != 0) {
    chosen.numbers.push_back(chosen.numbers.back());
    chosen.seconds.push_back(chosen.seconds.back());
  }
  return chosen;
}

// Rounds half to even, as numpy does.
ChosenFrames segment_middles(const media::VideoHeader& header, int64_t segments) {
  const double size = static_cast<double>(header.frames - 1) / static_cast<double>(segments);
  ChosenFrames chosen;
  for (int64_t i = 0; i < segments; ++i)
    chosen.numbers.push_back(static_cast<int64_t>(size / 2 + std::nearbyint(size * static_cast<double>(i))));
  set_times(chosen, header);
  return chosen;
}

// moviepy, which ms-swift asks, counts frames by the duration that ffmpeg prints in hundredths of a second.
ChosenFrames segment_beginnings(const media::VideoHeader& header, int64_t segments) {
  int64_t total = header.frames;
  if (header.seconds > 0)
    total = std::clamp<int64_t>(static_cast<int64_t>(header.fps * (std::round(header.seconds * 100) / 100)), 1, header.frames);
  ChosenFrames chosen;
  for (int64_t i = 0; i < segments; ++i) chosen.numbers.push_back(i * total / segments);
  set_times(chosen, header);
  return chosen;
}

}  // namespace

Result<ChosenFrames> choose_frames(const media::VideoHeader& header, const PictureConfig& config) {
  const int64_t factor = config.processor.temporal_patch_size;
  if (config.uses_factory_rule()) return factory_frames(header, config.video, factor);
  if (const int64_t segments = config.video.segments; segments > 0)
    return config.video.frame_kind == FrameKind::images ? segment_middles(header, segments)
                                                        : segment_beginnings(header, segments);
  return utils_frames(header, config.video, factor);
}

Error video_error(const std::string& source, const std::string& why) {
  return error("video {}: {}", media::describe_source(source), why);
}

Result<OpenedVideo> open_video(const std::string& source, const PictureConfig& config) {
  auto medium = media::Medium::open(source, video_sources(config));
  if (!medium) return video_error(source, medium.error());
  auto header = media::read_video_header(medium->bytes());
  if (!header) return video_error(source, header.error());
  auto chosen = choose_frames(*header, config);
  if (!chosen) return video_error(source, chosen.error());
  return OpenedVideo{std::make_shared<const media::VideoHeader>(std::move(*header)), std::move(*chosen)};
}

}  // namespace hone::data
