#include "hone/data/videos/frames_as_images.h"

#include "hone/data/videos/video_frames.h"
#include "hone/data/videos/videos.h"

namespace hone::data {
namespace {

std::shared_ptr<const PictureConfig> frame_config(const PictureConfig& config) {
  auto frame = std::make_shared<PictureConfig>(config);
  auto& processor = frame->processor;
  processor.tiles.most = config.video.max_tiles;
  processor.shrink_above = 0;  // swift --max_pixels is of images
  processor.factory_min_pixels = config.video.frame_min_pixels;
  processor.factory_max_pixels = config.video.frame_max_pixels;
  if (config.video.frame_kind == FrameKind::stacked) processor.max_pixels = config.video.max_pixels;
  return frame;
}

// In LLaMA-Factory each frame but the first begins a line, in ms-swift a line ends with each.
void number_frames(std::vector<Picture>& frames) {
  for (size_t i = 0; i < frames.size(); ++i)
    frames[i].text_before = fmt::format("{}Frame{}: ", i > 0 && frames[i].config->uses_factory_rule() ? "\n" : "", i + 1);
}

// One medium of several frames, each resized to the size of the first.
void stack_frames(Picture& picture, int64_t frames) {
  const auto& processor = picture.config->processor;
  picture.geometry.frames = frames;
  picture.geometry.tokens = picture.geometry.patches() / (processor.merge_size * processor.merge_size) + processor.marks;
}

Result<std::vector<Picture>> images_of_list(const std::string& source, const std::shared_ptr<const PictureConfig>& frame) {
  auto listed = listed_frames(source);
  if (!listed) return Error{listed.error()};
  auto frames = open_pictures(*listed, frame);
  if (!frames) return frames;
  if (frame->video.frame_kind == FrameKind::images) {
    number_frames(*frames);
    return frames;
  }
  auto first = std::move(frames->front());
  stack_frames(first, static_cast<int64_t>(listed->size()));
  first.frames = std::move(*listed);
  return std::vector<Picture>{std::move(first)};
}

Result<std::vector<Picture>> images_of_file(const std::string& source, const std::shared_ptr<const PictureConfig>& frame) {
  auto opened = open_video(source, *frame);
  if (!opened) return Error{opened.error()};
  auto& [file, chosen] = *opened;
  auto geometry = media::image_geometry(file->size, frame->processor);
  if (!geometry) return video_error(source, geometry.error());
  std::vector<Picture> frames;
  if (frame->video.frame_kind == FrameKind::stacked) {
    frames.push_back(
        {.source = source, .geometry = *geometry, .config = frame, .file = file, .numbers = std::move(chosen.numbers)});
    stack_frames(frames.front(), static_cast<int64_t>(frames.front().numbers.size()));
    return frames;
  }
  for (int64_t number : chosen.numbers)
    frames.push_back({.source = source, .geometry = *geometry, .config = frame, .file = file, .numbers = {number}});
  number_frames(frames);
  return frames;
}

}  // namespace

std::shared_ptr<const PictureConfig> beside_videos(const std::shared_ptr<const PictureConfig>& config) {
  if (config->video.frame_kind != FrameKind::images || config->uses_factory_rule()) return config;
  auto fewer = std::make_shared<PictureConfig>(*config);
  fewer->processor.tiles.most = config->video.max_tiles;
  return fewer;
}

Result<std::vector<Picture>> frames_as_images(const std::string& source, const std::shared_ptr<const PictureConfig>& config) {
  const auto frame = frame_config(*config);
  return source.starts_with("[") ? images_of_list(source, frame) : images_of_file(source, frame);
}

}  // namespace hone::data
