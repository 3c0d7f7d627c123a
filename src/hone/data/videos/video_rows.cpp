// Converts video frames to the encoder's input rows, a group of frames at a time.
#include "hone/data/videos/videos.h"
#include "hone/device/tensor.h"
#include "hone/media/decode_image.h"
#include "hone/media/decode_video.h"

namespace hone::data {
namespace {

// torchvision's resize of a uint8 tensor: qwen_vl_utils' version computes in float32 and rounds, the one of transformers' video
// processors stays in uint8.
at::Tensor resized(const at::Tensor& frame_1cyx, int64_t height, int64_t width, bool in_bytes) {
  if (frame_1cyx.size(2) == height && frame_1cyx.size(3) == width) return frame_1cyx.to(at::kFloat);
  constexpr bool kAlignCorners = false;
  if (in_bytes) return at::_upsample_bicubic2d_aa(frame_1cyx, {height, width}, kAlignCorners).to(at::kFloat);
  return at::_upsample_bicubic2d_aa(frame_1cyx.to(at::kFloat), {height, width}, kAlignCorners).clamp_(0, 255).round_();
}

at::Tensor channel_values(const std::array<double, 3>& values, double factor) {
  return at::tensor(std::vector<double>(values.begin(), values.end()), at::kFloat).mul(1 / factor).view({3, 1, 1});
}

// Takes frames one by one; holds no more than the tower joins. Frames that are images to a model are prepared as such.
class FrameRows {
 public:
  FrameRows(const Picture& like, float* to)
      : like_(like),
        geometry_(like.geometry),
        processor_(like.config->processor),
        mean_(channel_values(processor_.mean, processor_.rescale_factor)),
        std_(channel_values(processor_.std, processor_.rescale_factor)),
        to_(to) {}

  void add(media::Image image) {
    if (like_.config->video.frame_kind != FrameKind::joined) return add_as_image(std::move(image));
    for (const auto& step : geometry_.steps) {
      if (step.to_rgb) image = media::to_rgb(std::move(image));
      image = media::resize(image, step.to, step.filter);
    }
    image = media::to_rgb(std::move(image));
    const auto frame_1cyx = at::from_blob(image.pixels.data(), {1, image.size.height, image.size.width, 3}, at::kByte)
                                .permute({0, 3, 1, 2})
                                .contiguous();
    group_.push_back(resized(frame_1cyx, geometry_.grid_h * processor_.patch_size, geometry_.grid_w * processor_.patch_size,
                             like_.config->uses_factory_rule()));
    if (static_cast<int64_t>(group_.size()) == processor_.temporal_patch_size) write_group();
  }

 private:
  void add_as_image(media::Image image) {
    auto geometry = geometry_;
    geometry.source = image.size;  // frames of a list may differ
    if (like_.config->video.frame_kind == FrameKind::stacked) geometry.frames = 1;
    const std::span own(to_, static_cast<size_t>(geometry.patches() * processor_.row_size()));
    media::fill_patch_rows(std::move(image), geometry, processor_, own);
    to_ += own.size();
  }

  void write_group() {
    const int64_t patch = processor_.patch_size, merge = processor_.merge_size, h = geometry_.grid_h, w = geometry_.grid_w;
    const auto rows = at::cat(std::exchange(group_, {}))
                          .sub(mean_)
                          .div(std_)
                          .view({processor_.temporal_patch_size, 3, h / merge, merge, patch, w / merge, merge, patch})
                          .permute({2, 5, 3, 6, 1, 0, 4, 7})
                          .contiguous();
    to_ = std::copy_n(rows.const_data_ptr<float>(), rows.numel(), to_);
  }

  const Picture& like_;
  const media::ImageGeometry& geometry_;
  const media::ImageProcessorConfig& processor_;
  at::Tensor mean_, std_;
  std::vector<at::Tensor> group_;
  float* to_;
};

std::optional<Error> add_listed(const Picture& picture, FrameRows& rows) {
  for (const auto& source : picture.frames) {
    auto failed = [&](const std::string& why) { return error("frame {}: {}", media::describe_source(source), why); };
    auto medium = media::Medium::open(source, picture.config->sources);
    if (!medium) return failed(medium.error());
    auto image = media::decode_image(medium->bytes());
    if (!image) return failed(image.error());
    rows.add(std::move(*image));
  }
  return std::nullopt;
}

std::optional<Error> add_decoded(std::span<const Picture> parts, FrameRows& rows) {
  const auto& first = parts.front();
  auto failed = [&](const std::string& why) { return error("video {}: {}", media::describe_source(first.source), why); };
  std::vector<int64_t> numbers;
  for (const auto& part : parts) numbers.insert(numbers.end(), part.numbers.begin(), part.numbers.end());
  auto medium = media::Medium::open(first.source, video_sources(*first.config));
  if (!medium) return failed(medium.error());
  bool replaced = false;
  const auto problem = media::decode_frames(medium->bytes(), numbers, [&](const media::Image& frame) {
    replaced = replaced || frame.size != first.geometry.source;
    if (!replaced) rows.add(frame);
  });
  if (problem) return failed(problem->message);
  if (replaced) return failed("it was replaced during the run");
  return std::nullopt;
}

}  // namespace

media::SourceRules video_sources(const PictureConfig& config) {
  auto sources = config.sources;
  sources.most_bytes = media::kMostVideoBytes;
  return sources;
}

std::optional<Error> fill_video_rows(std::span<const Picture> parts, std::span<float> rows) {
  FrameRows frames(parts.front(), rows.data());
  return parts.front().file ? add_decoded(parts, frames) : add_listed(parts.front(), frames);
}

}  // namespace hone::data
