#include "hone/data/encode/videos.h"

#include "hone/base/json.h"
#include "hone/device/tensor.h"
#include "hone/media/decode_image.h"
#include "hone/media/image_header.h"

namespace hone::data {
namespace {

constexpr size_t kMostFrames = 768;

Result<std::vector<std::string>> frames_of(const std::string& source) {
  if (!source.starts_with("["))
    return error("video {}: video files are not read in this version; expected a list of frames", media::describe_source(source));
  const auto list = parse_json(source);
  std::vector<std::string> frames;
  if (!list || !list->is_array()) return error("a video that is no list of frames");
  for (const auto& frame : *list) {
    if (!frame.is_string()) return error("a video holds {}; expected paths of its frames", frame.type_name());
    frames.push_back(frame.get<std::string>());
  }
  if (frames.empty() || frames.size() > kMostFrames)
    return error("a video of {} frames; expected 1 to {}", frames.size(), kMostFrames);
  return frames;
}

// Each frame by itself: fetch_image is given twice the usual cell.
Result<media::ImagePlan> plan_frame(const std::string& source, const PictureConfig& config) {
  auto failed = [&](const std::string& why) { return error("frame {}: {}", media::describe_source(source), why); };
  auto medium = media::Medium::open(source, config.sources);
  if (!medium) return failed(medium.error());
  auto header = media::read_image_header(medium->bytes());
  if (!header) return failed(header.error());
  auto processor = config.processor;
  processor.patch_size *= processor.merge_size;
  processor.min_pixels *= processor.merge_size * processor.merge_size;
  processor.max_pixels *= processor.merge_size * processor.merge_size;
  auto plan = media::plan_image(header->size, processor);
  return plan ? plan : failed(plan.error());
}

// All frames together, within what a video may take in all.
Result<media::ImageSize> video_size(media::ImageSize frame, size_t frames, const PictureConfig& config) {
  const auto& video = config.video;
  const auto cell = static_cast<double>(config.processor.factor() * config.processor.factor());
  const double share =
      video.total_tokens * 0.9 * cell / static_cast<double>(frames) * static_cast<double>(config.processor.temporal_patch_size);
  const double least = static_cast<double>(video.min_tokens) * cell, most = static_cast<double>(video.max_tokens) * cell;
  auto processor = config.processor;
  processor.min_pixels = static_cast<int64_t>(least);
  processor.max_pixels = std::max(static_cast<int64_t>(std::min(most, share)), static_cast<int64_t>(least * 1.05));
  return media::smart_resize(frame, processor);
}

Picture picture_of(std::vector<std::string> frames, const media::ImagePlan& frame, media::ImageSize size,
                   const std::shared_ptr<const PictureConfig>& config) {
  const auto& processor = config->processor;
  Picture picture{frames.front(), frame, config, 0};
  picture.plan.frames = static_cast<int64_t>(frames.size()) / processor.temporal_patch_size;
  picture.plan.grid_h = size.height / processor.patch_size;
  picture.plan.grid_w = size.width / processor.patch_size;
  picture.plan.tokens = picture.plan.patches() / (processor.merge_size * processor.merge_size);
  picture.frames = std::move(frames);
  const double rate = config->video.tokens_per_second;
  picture.interval = rate == 0 ? 1 : rate * static_cast<double>(processor.temporal_patch_size) / config->video.fps;
  return picture;
}

// "<0.2 seconds>": the middle of the frames [first, first + count) as a clock of `fps` counts them.
std::string time_of(size_t first, size_t count, double fps) {
  return fmt::format("<{:.1f} seconds>", (static_cast<double>(first) + static_cast<double>(count - 1) / 2) / fps);
}

Result<at::Tensor> decode_frame(const std::string& source, const media::ImagePlan& plan, const PictureConfig& config) {
  auto failed = [&](const std::string& why) { return error("frame {}: {}", media::describe_source(source), why); };
  auto medium = media::Medium::open(source, config.sources);
  if (!medium) return failed(medium.error());
  auto image = media::decode_image(medium->bytes());
  if (!image) return failed(image.error());
  for (const auto& step : plan.steps) {
    if (step.to_rgb) *image = media::to_rgb(std::move(*image));
    *image = media::resize(*image, step.to, step.filter);
  }
  return at::from_blob(image->pixels.data(), {image->size.height, image->size.width, 3}, at::kByte).permute({2, 0, 1}).clone();
}

// torchvision's resize of a tensor of bytes: in float32, then rounded.
at::Tensor resized(const at::Tensor& frames_fcyx, int64_t height, int64_t width) {
  if (frames_fcyx.size(2) == height && frames_fcyx.size(3) == width) return frames_fcyx.to(at::kFloat);
  return at::_upsample_bicubic2d_aa(frames_fcyx.to(at::kFloat), {height, width}, /*align_corners=*/false).clamp_(0, 255).round_();
}

at::Tensor channel_values(const std::array<double, 3>& values, double factor) {
  return at::tensor(std::vector<double>(values.begin(), values.end()), at::kFloat).mul(1 / factor).view({3, 1, 1});
}

}  // namespace

Result<std::vector<Picture>> plan_video(const std::string& source, const std::shared_ptr<const PictureConfig>& config) {
  auto frames = frames_of(source);
  if (!frames) return Error{frames.error()};
  std::optional<media::ImagePlan> frame;
  for (const auto& one : *frames) {
    auto plan = plan_frame(one, *config);
    if (!plan) return Error{plan.error()};
    if (frame && frame->steps.back().to != plan->steps.back().to)
      return error("frame {}: another size than the frames before it", media::describe_source(one));
    if (!frame) frame = std::move(*plan);
  }
  const auto joined = static_cast<size_t>(config->processor.temporal_patch_size);
  while (frames->size() % joined != 0) frames->push_back(frames->back());
  auto size = video_size(frame->steps.back().to, frames->size(), *config);
  if (!size) return Error{size.error()};
  std::vector<Picture> pictures;
  const size_t part = config->video.has_timestamps ? joined : frames->size();
  for (size_t first = 0; first < frames->size(); first += part) {
    const auto begin = frames->begin() + static_cast<ptrdiff_t>(first);
    pictures.push_back(picture_of({begin, begin + static_cast<ptrdiff_t>(part)}, *frame, *size, config));
    if (config->video.has_timestamps) pictures.back().text_before = time_of(first, joined, config->video.fps);
  }
  return pictures;
}

Result<std::vector<float>> video_rows(const Picture& picture) {
  const auto& processor = picture.config->processor;
  std::vector<at::Tensor> frames;
  for (const auto& source : picture.frames) {
    auto frame = decode_frame(source, picture.plan, *picture.config);
    if (!frame) return Error{frame.error()};
    if (!frames.empty() && frame->sizes() != frames.front().sizes()) return error("frame {}: it was replaced", source);
    frames.push_back(std::move(*frame));
  }
  const int64_t patch = processor.patch_size, merge = processor.merge_size, h = picture.plan.grid_h, w = picture.plan.grid_w;
  auto values = resized(at::stack(frames), h * patch, w * patch);
  values = values.sub(channel_values(processor.mean, processor.rescale_factor))
               .div(channel_values(processor.std, processor.rescale_factor));
  auto rows =
      values.view({picture.plan.frames, processor.temporal_patch_size, 3, h / merge, merge, patch, w / merge, merge, patch})
          .permute({0, 3, 6, 4, 7, 2, 1, 5, 8})
          .contiguous();
  return std::vector<float>(rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel());
}

}  // namespace hone::data
