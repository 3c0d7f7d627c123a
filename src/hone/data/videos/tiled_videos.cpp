#include "hone/data/videos/tiled_videos.h"

#include <cmath>

#include "hone/data/videos/videos.h"

namespace hone::data {
namespace {

// Rounds half to even, as numpy does.
std::vector<int64_t> segment_middles(int64_t frames, int64_t segments) {
  const double size = static_cast<double>(frames - 1) / static_cast<double>(segments);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < segments; ++i)
    numbers.push_back(static_cast<int64_t>(size / 2 + std::nearbyint(size * static_cast<double>(i))));
  return numbers;
}

void number_frames(std::vector<Picture>& frames) {
  for (size_t i = 0; i < frames.size(); ++i) frames[i].text_before = fmt::format("Frame{}: ", i + 1);
}

}  // namespace

std::shared_ptr<const PictureConfig> beside_videos(const std::shared_ptr<const PictureConfig>& config) {
  if (config->video.segments == 0) return config;
  auto fewer = std::make_shared<PictureConfig>(*config);
  fewer->processor.tiles.most = config->video.max_tiles;
  return fewer;
}

Result<std::vector<Picture>> plan_tiled_video(const std::string& source, const std::shared_ptr<const PictureConfig>& config) {
  const auto tiled = beside_videos(config);
  if (source.starts_with("[")) {
    auto listed = listed_frames(source);
    if (!listed) return Error{listed.error()};
    auto frames = plan_pictures(*listed, tiled);
    if (frames) number_frames(*frames);
    return frames;
  }
  auto failed = [&](const std::string& why) { return error("video {}: {}", media::describe_source(source), why); };
  auto medium = media::Medium::open(source, video_sources(*config));
  if (!medium) return failed(medium.error());
  auto header = media::read_video_header(medium->bytes());
  if (!header) return failed(header.error());
  auto plan = media::plan_image(header->size, tiled->processor);
  if (!plan) return failed(plan.error());
  if (plan->frames > 1) return failed("a frame in several tiles; expected VIDEO_MAX_NUM=1");
  const auto file = std::make_shared<const media::VideoHeader>(*header);
  std::vector<Picture> frames;
  for (int64_t number : segment_middles(header->frames, config->video.segments))
    frames.push_back({.source = source, .plan = *plan, .config = tiled, .file = file, .numbers = {number}});
  number_frames(frames);
  return frames;
}

}  // namespace hone::data
