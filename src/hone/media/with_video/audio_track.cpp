#include "hone/media/audio_track.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hone/media/with_video/video_file.h"

namespace hone::media {
namespace {

// ffmpeg's conversion to 16 bits, which librosa reads from a container.
struct To16Bits {
  static float of(float value) { return clipped(std::lrint(value * 32768.0f)); }
  static float of(double value) { return clipped(std::lrint(value * 32768.0)); }
  static float of(int16_t value) { return static_cast<float>(value); }
  static float of(int32_t value) { return static_cast<float>(value >> 16); }
  static float of(int64_t value) { return static_cast<float>(value >> 48); }
  static float of(uint8_t value) { return static_cast<float>((value - 128) * 256); }
  static float clipped(long value) { return static_cast<float>(std::clamp(value, -32768L, 32767L)); }
};

// The samples of a file, frame by frame.
class TrackDecoder {
 public:
  explicit TrackDecoder(std::unique_ptr<VideoFile> file) : file_(std::move(file)), f_(file_->functions()) {}
  ~TrackDecoder() {
    if (frame_) f_.frame_free(&frame_);
    if (context_) f_.free_context(&context_);
  }
  TrackDecoder(const TrackDecoder&) = delete;

  std::optional<Error> open() {
    const auto* decoder = f_.find_decoder(file_->codec().codec_id);
    if (!decoder) return error("sound of a kind that this machine's FFmpeg does not decode");
    context_ = f_.alloc_context(decoder);
    frame_ = f_.frame_alloc();
    if (!context_ || !frame_ || f_.parameters_to_context(context_, &file_->codec()) < 0) return error("no memory for a sound");
    context_->pkt_timebase = file_->time_base();  // for the samples that the file says to skip at both ends
    AVDictionary* options = nullptr;
    set_decoder_limits(f_, &options);
    const int code = f_.open_codec(context_, decoder, &options);
    f_.dict_free(&options);
    if (code < 0) return error("sound that is not decoded: {}", f_.error_text(code));
    return std::nullopt;
  }

  // Passes the mean of the channels to `samples`.
  Result<AudioTrack> decode() {
    AudioTrack track;
    const int64_t most = static_cast<int64_t>(kMostSeconds) * file_->codec().sample_rate;
    while (true) {
      auto more = next();
      if (!more) return Error{more.error()};
      if (!*more) break;
      if (auto problem = append(track)) return std::move(*problem);
      if (track.header.samples > most) return error("more than {} seconds; cut it into parts", kMostSeconds);
    }
    if (track.header.samples == 0) return error("a track without samples");
    return track;
  }

 private:
  Result<bool> next() {
    while (true) {
      const int code = f_.receive_frame(context_, frame_);
      if (code == 0) return true;
      if (code == AVERROR_EOF) return false;
      if (code != AVERROR(EAGAIN) || drained_) return error("a damaged sound: {}", f_.error_text(code));
      const auto* packet = file_->next_packet();
      drained_ = packet == nullptr;
      // As in ffmpeg, a damaged packet is skipped; the resulting length is checked later.
      if (const int sent = f_.send_packet(context_, packet); sent < 0 && sent != AVERROR_INVALIDDATA)
        return error("a damaged sound: {}", f_.error_text(sent));
    }
  }

  std::optional<Error> append(AudioTrack& track) {
    const int channels = frame_->ch_layout.nb_channels, count = frame_->nb_samples, rate = frame_->sample_rate;
    auto& header = track.header;
    if (header.samples == 0) header = {0, rate, channels};
    if (auto problem = check_sound_format(rate, channels)) return problem;
    if (rate != header.rate || channels != header.channels)
      return error("{} channels of {} Hz after {} of {} Hz", channels, rate, header.channels, header.rate);
    const size_t first = track.samples.size();
    track.samples.resize(first + static_cast<size_t>(count), 0.0f);
    float* to = track.samples.data() + first;
    switch (frame_->format) {
      case AV_SAMPLE_FMT_U8:
        add<uint8_t>(to, false);
        break;
      case AV_SAMPLE_FMT_S16:
        add<int16_t>(to, false);
        break;
      case AV_SAMPLE_FMT_S32:
        add<int32_t>(to, false);
        break;
      case AV_SAMPLE_FMT_S64:
        add<int64_t>(to, false);
        break;
      case AV_SAMPLE_FMT_FLT:
        add<float>(to, false);
        break;
      case AV_SAMPLE_FMT_DBL:
        add<double>(to, false);
        break;
      case AV_SAMPLE_FMT_U8P:
        add<uint8_t>(to, true);
        break;
      case AV_SAMPLE_FMT_S16P:
        add<int16_t>(to, true);
        break;
      case AV_SAMPLE_FMT_S32P:
        add<int32_t>(to, true);
        break;
      case AV_SAMPLE_FMT_S64P:
        add<int64_t>(to, true);
        break;
      case AV_SAMPLE_FMT_FLTP:
        add<float>(to, true);
        break;
      case AV_SAMPLE_FMT_DBLP:
        add<double>(to, true);
        break;
      default:
        return error("samples of a format that is not read ({})", frame_->format);
    }
    header.samples += count;
    return std::nullopt;
  }

  // librosa's order: samples as floats, then the sum over channels, then the mean.
  template <class T>
  void add(float* to, bool planar) {
    const auto channels = static_cast<size_t>(frame_->ch_layout.nb_channels);
    for (size_t i = 0; i < static_cast<size_t>(frame_->nb_samples); ++i) {
      float sum = 0;
      for (size_t c = 0; c < channels; ++c) {
        T value;
        const uint8_t* from =
            planar ? frame_->extended_data[c] + i * sizeof(T) : frame_->extended_data[0] + (i * channels + c) * sizeof(T);
        std::memcpy(&value, from, sizeof(T));
        if constexpr (std::is_floating_point_v<T>) value = std::isfinite(value) ? value : T{0};
        sum += To16Bits::of(value) / 32768.0f;
      }
      to[i] = channels > 1 ? sum / static_cast<float>(channels) : sum;
    }
  }

  std::unique_ptr<VideoFile> file_;
  const FfmpegFunctions& f_;
  AVCodecContext* context_ = nullptr;
  AVFrame* frame_ = nullptr;
  bool drained_ = false;
};

Result<AudioTrack> decode_all(std::string_view bytes) {
  auto file = VideoFile::open(bytes, TrackKind::sound);
  if (!file) return Error{file.error()};
  TrackDecoder decoder(std::move(*file));
  if (auto problem = decoder.open()) return std::move(*problem);
  return decoder.decode();
}

}  // namespace

bool has_tracks(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.size() < 16) return false;
  return bytes.substr(4, 4) == "ftyp" || bytes.substr(4, 4) == "moov" || bytes.starts_with("\x1a\x45\xdf\xa3"sv) ||
         (bytes.starts_with("RIFF") && bytes.substr(8, 4) == "AVI ") || bytes.starts_with("\x00\x00\x01\xba"sv) ||
         (bytes[0] == 'G' && bytes.size() > 188 && bytes[188] == 'G');
}

Result<AudioHeader> read_track_header(std::string_view bytes) {
  auto file = VideoFile::open(bytes, TrackKind::sound);
  if (!file) return Error{file.error()};
  if (auto problem = check_sound_format((*file)->codec().sample_rate, (*file)->codec().ch_layout.nb_channels))
    return std::move(*problem);
  AudioHeader header{(*file)->samples_in_index(), (*file)->codec().sample_rate, (*file)->codec().ch_layout.nb_channels};
  if (header.samples == 0) {
    auto track = decode_all(bytes);
    if (!track) return Error{track.error()};
    return track->header;
  }
  if (header.seconds() > kMostSeconds)
    return error("{:.0f} seconds; at most {} are read: cut it into parts", header.seconds(), kMostSeconds);
  return header;
}

Result<AudioTrack> decode_track(std::string_view bytes) {
  auto header = read_track_header(bytes);
  if (!header) return Error{header.error()};
  auto track = decode_all(bytes);
  if (!track) return track;
  // The last packet may be shorter than the index says; if more is missing, the file is truncated.
  constexpr int64_t kPacket = 4096;
  if (track->header.samples + kPacket < header->samples)
    return error("truncated: {} samples of the {} in its index", track->header.samples, header->samples);
  track->samples.resize(static_cast<size_t>(header->samples), 0.0f);
  track->header.samples = header->samples;
  return track;
}

}  // namespace hone::media
