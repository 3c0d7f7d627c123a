#include "hone/media/decode_video.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "hone/media/with_video/video_file.h"

namespace hone::media {
namespace {

// The frames of a file in sequence, from the start or from a seek position.
class FrameDecoder {
 public:
  explicit FrameDecoder(std::unique_ptr<VideoFile> file) : file_(std::move(file)), f_(file_->functions()) {}
  ~FrameDecoder() {
    if (scaler_) f_.free_scaler(scaler_);
    if (frame_) f_.frame_free(&frame_);
    if (context_) f_.free_context(&context_);
  }
  FrameDecoder(const FrameDecoder&) = delete;

  std::optional<Error> open() {
    const auto* decoder = f_.find_decoder(file_->codec().codec_id);
    if (!decoder) return error("pictures of a kind that this machine's FFmpeg does not decode");
    context_ = f_.alloc_context(decoder);
    frame_ = f_.frame_alloc();
    if (!context_ || !frame_ || f_.parameters_to_context(context_, &file_->codec()) < 0) return error("no memory for a video");
    AVDictionary* options = nullptr;
    set_decoder_limits(f_, &options);
    const int code = f_.open_codec(context_, decoder, &options);
    f_.dict_free(&options);
    if (code < 0) return error("pictures that are not decoded: {}", f_.error_text(code));
    return std::nullopt;
  }

  bool seek_to(int64_t dts) {
    if (!file_->seek_to(dts)) return false;
    f_.flush_buffers(context_);
    drained_ = false;
    return true;
  }

  // False at the end.
  Result<bool> next() {
    while (true) {
      const int code = f_.receive_frame(context_, frame_);
      if (code == 0) return true;
      if (code == AVERROR_EOF) return false;
      if (code != AVERROR(EAGAIN) || drained_) return damaged(code);
      const auto* packet = file_->next_packet();
      drained_ = packet == nullptr;
      if (const int sent = f_.send_packet(context_, packet); sent < 0) return damaged(sent);
    }
  }

  int64_t time() const { return frame_->pts != AV_NOPTS_VALUE ? frame_->pts : frame_->best_effort_timestamp; }

  // The frame read by next(). The scaler needs longer rows than an image has, since it writes whole vectors.
  Result<Image> image() {
    const ImageSize size{frame_->width, frame_->height};
    if (size != ImageSize{file_->codec().width, file_->codec().height})
      return error("a frame of {} x {} pixels in a video of {} x {}", size.width, size.height, file_->codec().width,
                   file_->codec().height);
    if (!prepare_scaler()) return error("colors that cannot be converted to RGB");
    constexpr size_t kAligned = 64;
    const auto width = static_cast<size_t>(size.width) * 3, stride = (width + 2 * kAligned - 1) / kAligned * kAligned;
    padded_.resize(stride * static_cast<size_t>(size.height));
    uint8_t* const planes[4] = {padded_.data(), nullptr, nullptr, nullptr};
    const int strides[4] = {static_cast<int>(stride), 0, 0, 0};
    f_.scale(scaler_, frame_->data, frame_->linesize, 0, frame_->height, planes, strides);
    Image image{size, 3, false, std::vector<uint8_t>(width * static_cast<size_t>(size.height))};
    for (size_t y = 0; y < static_cast<size_t>(size.height); ++y)
      std::memcpy(image.pixels.data() + y * width, padded_.data() + y * stride, width);
    return image;
  }

 private:
  Error damaged(int code) const { return error("a damaged video: {}", f_.error_text(code)); }

  // RGB conversion of PyAV and torchcodec: bilinear, in the frame's color space.
  bool prepare_scaler() {
    const auto format = static_cast<AVPixelFormat>(frame_->format);
    if (scaler_ && format == format_) return true;
    if (scaler_) f_.free_scaler(scaler_);
    scaler_ = f_.get_scaler(frame_->width, frame_->height, format, frame_->width, frame_->height, AV_PIX_FMT_RGB24, SWS_BILINEAR,
                            nullptr, nullptr, nullptr);
    format_ = format;
    if (!scaler_) return false;
    const int full_range = frame_->color_range == AVCOL_RANGE_JPEG ? 1 : 0;
    // Formats without such details return an error, which is harmless.
    f_.set_colorspace(scaler_, f_.get_coefficients(frame_->colorspace), full_range, f_.get_coefficients(SWS_CS_DEFAULT), 1, 0,
                      1 << 16, 1 << 16);
    return true;
  }

  std::unique_ptr<VideoFile> file_;
  const FfmpegFunctions& f_;
  AVCodecContext* context_ = nullptr;
  AVFrame* frame_ = nullptr;
  SwsContext* scaler_ = nullptr;
  AVPixelFormat format_ = AV_PIX_FMT_NONE;
  std::vector<uint8_t> padded_;
  bool drained_ = false;
};

// Finds frames by ascending indices.
class FrameFinder {
 public:
  explicit FrameFinder(std::string_view bytes) : bytes_(bytes) {}

  std::optional<Error> begin() {
    auto file = VideoFile::open(bytes_);
    if (!file) return Error{file.error()};
    timeline_ = (*file)->read_timeline();
    return restart();
  }

  Result<Image> find(int64_t number) {
    if (number < 0 || number >= timeline_.packets) return error("frame {} of {}", number, timeline_.packets);
    auto found = timeline_.has_times ? find_by_time(number) : find_by_count(number);
    if (!found) return Error{found.error()};
    if (!*found) return error("frame {} of {} is missing", number, timeline_.packets);
    return decoder_->image();
  }

 private:
  std::optional<Error> restart() {
    auto file = VideoFile::open(bytes_);
    if (!file) return Error{file.error()};
    decoder_ = std::make_unique<FrameDecoder>(std::move(*file));
    passed_ = 0;
    reached_ = std::numeric_limits<int64_t>::min();
    return decoder_->open();
  }

  Result<bool> find_by_count(int64_t number) {
    while (true) {
      auto more = decoder_->next();
      if (!more || !*more || passed_++ == number) return more;
    }
  }

  Result<bool> find_by_time(int64_t number) {
    const int64_t wanted = timeline_.pts[static_cast<size_t>(number)];
    const bool sought = seek_near(wanted);
    auto found = read_up_to(wanted);
    if (!found || *found || !sought) return found;
    // Seeking went past it: read everything from the start once.
    may_seek_ = false;
    if (auto problem = restart()) return std::move(*problem);
    return read_up_to(wanted);
  }

  // Seeks to the last keyframe before `wanted`, if that is ahead.
  bool seek_near(int64_t wanted) {
    const auto& keys = timeline_.keys;
    auto key = std::upper_bound(keys.begin(), keys.end(), wanted, [](int64_t time, const auto& one) { return time < one.pts; });
    if (!may_seek_ || key == keys.begin() || (--key)->pts <= reached_ || key == keys.begin()) return false;
    return decoder_->seek_to(key->dts);
  }

  Result<bool> read_up_to(int64_t wanted) {
    while (true) {
      auto more = decoder_->next();
      if (!more || !*more) return more;
      reached_ = decoder_->time();
      if (reached_ >= wanted) return reached_ == wanted;
    }
  }

  std::string_view bytes_;
  VideoFile::Timeline timeline_;
  std::unique_ptr<FrameDecoder> decoder_;
  int64_t passed_ = 0;   // number of frames
  int64_t reached_ = 0;  // the time of the last frame
  bool may_seek_ = true;
};

}  // namespace

Result<VideoHeader> read_video_header(std::string_view bytes) {
  auto file = VideoFile::open(bytes);
  if (!file) return Error{file.error()};
  return (*file)->header();
}

std::optional<Error> decode_frames(std::string_view bytes, std::span<const int64_t> numbers, const TakeFrame& take) {
  FrameFinder finder(bytes);
  if (auto problem = finder.begin()) return problem;
  std::optional<Image> frame;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && numbers[i] < numbers[i - 1]) return error("frames {} and {} in this order", numbers[i - 1], numbers[i]);
    if (i == 0 || numbers[i] != numbers[i - 1]) {
      auto found = finder.find(numbers[i]);
      if (!found) return Error{found.error()};
      frame = std::move(*found);
    }
    take(*frame);
  }
  return std::nullopt;
}

}  // namespace hone::media
