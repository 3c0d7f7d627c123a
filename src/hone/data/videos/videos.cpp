#include "hone/data/videos/videos.h"

#include <cmath>

#include "hone/base/json.h"
#include "hone/data/videos/frames_as_images.h"
#include "hone/data/videos/video_frames.h"
#include "hone/media/decode_image.h"
#include "hone/media/image_header.h"

namespace hone::data {
Result<std::vector<std::string>> listed_frames(const std::string& source) {
  constexpr size_t kMostFrames = 768;
  const auto list = parse_json(source);
  std::vector<std::string> frames;
  if (!list || !list->is_array()) return error("a video that is not a list of frames");
  for (const auto& frame : *list) {
    if (!frame.is_string()) return error("a video holds {}; expected paths of its frames", frame.type_name());
    frames.push_back(frame.get<std::string>());
  }
  if (frames.empty() || frames.size() > kMostFrames)
    return error("a video of {} frames; expected 1 to {}", frames.size(), kMostFrames);
  return frames;
}

namespace {

// What LLaMA-Factory does to every frame before transformers sees it.
Result<media::ImageGeometry> factory_frame_geometry(media::ImageSize size, const PictureConfig& config) {
  auto processor = config.processor;
  processor.factory_min_pixels = config.video.frame_min_pixels;
  processor.factory_max_pixels = config.video.frame_max_pixels;
  auto geometry = media::image_geometry(size, processor);
  if (geometry) geometry->steps.pop_back();  // transformers' own limit, for all frames together
  return geometry;
}

// qwen_vl_utils' fetch_image, called with twice the usual factor.
Result<media::ImageGeometry> utils_frame_geometry(media::ImageSize size, const PictureConfig& config) {
  auto processor = config.processor;
  processor.patch_size *= processor.merge_size;
  processor.min_pixels *= processor.merge_size * processor.merge_size;
  processor.max_pixels *= processor.merge_size * processor.merge_size;
  return media::image_geometry(size, processor);
}

Result<media::ImageGeometry> frame_geometry(const std::string& source, const PictureConfig& config) {
  auto failed = [&](const std::string& why) { return error("frame {}: {}", media::describe_source(source), why); };
  auto medium = media::Medium::open(source, config.sources);
  if (!medium) return failed(medium.error());
  auto header = media::read_image_header(medium->bytes());
  if (!header) return failed(header.error());
  auto geometry =
      config.uses_factory_rule() ? factory_frame_geometry(header->size, config) : utils_frame_geometry(header->size, config);
  return geometry ? geometry : failed(geometry.error());
}

media::ImageSize size_before(const media::ImageGeometry& geometry) {
  return geometry.steps.empty() ? geometry.source : geometry.steps.back().to;
}

// transformers' limits for Qwen3-VL apply to all frames together.
Result<media::ImageSize> resize_volume(media::ImageSize size, int64_t frames, const media::ImageProcessorConfig& processor) {
  const auto factor = static_cast<double>(processor.factor()), count = static_cast<double>(frames);
  auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  if (width < factor || height < factor) {
    const double scale = std::max(factor / height, factor / width);
    width = std::floor(width * scale);
    height = std::floor(height * scale);
  }
  auto cells = [&](double side) { return static_cast<int64_t>(side) * processor.factor(); };
  media::ImageSize to{cells(std::nearbyint(width / factor)), cells(std::nearbyint(height / factor))};
  const int64_t volume = frames * to.pixels();
  if (volume > processor.max_pixels) {
    const double beta = std::sqrt(count * height * width / static_cast<double>(processor.max_pixels));
    to = {std::max(cells(std::floor(width / beta / factor)), processor.factor()),
          std::max(cells(std::floor(height / beta / factor)), processor.factor())};
  } else if (volume < processor.min_pixels) {
    const double beta = std::sqrt(static_cast<double>(processor.min_pixels) / (count * height * width));
    to = {cells(std::ceil(width * beta / factor)), cells(std::ceil(height * beta / factor))};
  }
  return to;
}

// All frames together, within the limit of a video.
Result<media::ImageSize> video_size(media::ImageSize frame, size_t frames, const PictureConfig& config) {
  const auto& video = config.video;
  auto processor = config.processor;
  if (config.uses_factory_rule()) {
    processor.min_pixels = video.min_pixels;
    processor.max_pixels = video.max_pixels;
    if (video.has_timestamps) return resize_volume(frame, static_cast<int64_t>(frames), processor);
    return media::smart_resize(frame, processor);
  }
  const auto cell = static_cast<double>(processor.factor() * processor.factor());
  const double share =
      video.total_tokens * 0.9 * cell / static_cast<double>(frames) * static_cast<double>(processor.temporal_patch_size);
  const double least = static_cast<double>(video.min_tokens) * cell, most = static_cast<double>(video.max_tokens) * cell;
  processor.min_pixels = static_cast<int64_t>(least);
  processor.max_pixels = std::max(static_cast<int64_t>(std::min(most, share)), static_cast<int64_t>(least * 1.05));
  return media::smart_resize(frame, processor);
}

Picture picture_of(std::string source, const media::ImageGeometry& frame, size_t frames, media::ImageSize size,
                   const std::shared_ptr<const PictureConfig>& config, double fps) {
  const auto& processor = config->processor;
  Picture picture{std::move(source), frame, config, 0};
  picture.geometry.frames = static_cast<int64_t>(frames) / processor.temporal_patch_size;
  picture.geometry.grid_h = size.height / processor.patch_size;
  picture.geometry.grid_w = size.width / processor.patch_size;
  picture.geometry.tokens = picture.geometry.patches() / (processor.merge_size * processor.merge_size);
  const double rate = config->video.tokens_per_second;
  // transformers computes it in float32.
  picture.seconds = static_cast<float>(static_cast<double>(processor.temporal_patch_size) / fps);
  const bool whole = config->video.positions == VideoPositions::transformers_4 && !config->video.counts_time;
  picture.interval = rate == 0 ? 1 : static_cast<float>(rate) * (whole ? std::trunc(picture.seconds) : picture.seconds);
  return picture;
}

// "<0.2 seconds>": the mean of the timestamps of a temporal patch.
std::string time_between(double first, double last) { return fmt::format("<{:.1f} seconds>", (first + last) / 2); }

Result<std::vector<Picture>> pictures_of_list(const std::string& source, const std::shared_ptr<const PictureConfig>& config) {
  auto frames = listed_frames(source);
  if (!frames) return Error{frames.error()};
  std::optional<media::ImageGeometry> frame;
  for (const auto& one : *frames) {
    auto geometry = frame_geometry(one, *config);
    if (!geometry) return Error{geometry.error()};
    if (frame && size_before(*frame) != size_before(*geometry))
      return error("frame {}: another size than the frames before it", media::describe_source(one));
    if (!frame) frame = std::move(*geometry);
  }
  const auto joined = static_cast<size_t>(config->processor.temporal_patch_size);
  const size_t given = frames->size();
  while (frames->size() % joined != 0) frames->push_back(frames->back());
  auto size = video_size(size_before(*frame), frames->size(), *config);
  if (!size) return Error{size.error()};
  std::vector<Picture> pictures;
  const size_t part = config->video.has_timestamps ? joined : frames->size();
  // In qwen_vl_utils a repeated frame has its own timestamp, in LLaMA-Factory that of the frame it repeats.
  auto shown_at = [&](size_t place) {
    return static_cast<double>(config->uses_factory_rule() ? std::min(place, given - 1) : place) / config->video.fps;
  };
  for (size_t first = 0; first < frames->size(); first += part) {
    const auto begin = frames->begin() + static_cast<ptrdiff_t>(first);
    auto picture = picture_of(frames->at(first), *frame, part, *size, config, config->video.fps);
    picture.frames.assign(begin, begin + static_cast<ptrdiff_t>(part));
    if (config->video.has_timestamps) picture.text_before = time_between(shown_at(first), shown_at(first + part - 1));
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

Result<std::vector<Picture>> pictures_of_file(const std::string& source, const std::shared_ptr<const PictureConfig>& config) {
  auto opened = open_video(source, *config);
  if (!opened) return Error{opened.error()};
  auto& [file, chosen] = *opened;
  media::ImageGeometry frame;
  frame.source = file->size;
  if (config->uses_factory_rule()) {
    auto geometry = factory_frame_geometry(file->size, *config);
    if (!geometry) return video_error(source, geometry.error());
    frame = std::move(*geometry);
  }
  auto size = video_size(size_before(frame), chosen.numbers.size(), *config);
  if (!size) return video_error(source, size.error());
  std::vector<Picture> pictures;
  const size_t all = chosen.numbers.size();
  const size_t part = config->video.has_timestamps ? static_cast<size_t>(config->processor.temporal_patch_size) : all;
  for (size_t first = 0; first < all; first += part) {
    auto picture = picture_of(source, frame, part, *size, config, chosen.fps);
    picture.file = file;
    picture.numbers.assign(chosen.numbers.begin() + static_cast<ptrdiff_t>(first),
                           chosen.numbers.begin() + static_cast<ptrdiff_t>(first + part));
    if (config->video.has_timestamps) picture.text_before = time_between(chosen.seconds[first], chosen.seconds[first + part - 1]);
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

}  // namespace

Result<std::vector<Picture>> video_pictures(const std::string& source, const std::shared_ptr<const PictureConfig>& config) {
  if (config->video.frame_kind != FrameKind::joined) return frames_as_images(source, config);
  return source.starts_with("[") ? pictures_of_list(source, config) : pictures_of_file(source, config);
}

}  // namespace hone::data
