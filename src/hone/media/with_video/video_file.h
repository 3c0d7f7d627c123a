// Demuxes a video in memory. Only these bytes are read: no other file, no URL.
#pragma once
#include <memory>
#include <vector>

#include "hone/media/decode_video.h"
#include "hone/media/with_video/ffmpeg.h"

namespace hone::media {

enum class TrackKind { pictures, sound };

class VideoFile {
 public:
  // Reads the best track of the kind; the others are skipped.
  static Result<std::unique_ptr<VideoFile>> open(std::string_view bytes, TrackKind kind = TrackKind::pictures);
  ~VideoFile();
  VideoFile(const VideoFile&) = delete;

  Result<VideoHeader> header();
  // The number of audio samples in an MP4's index, minus those to skip; 0 if unknown. Reads to the end of the file.
  int64_t samples_in_index();

  // The next packet of the track, null at the end. Valid until the next call.
  const AVPacket* next_packet();
  bool seek_to(int64_t dts);

  // Timestamps of the frames in order, and the keyframes. Reads to the end of the file.
  struct Timeline {
    struct Key {
      int64_t pts, dts;
    };
    std::vector<int64_t> pts;
    std::vector<Key> keys;
    int64_t packets = 0;
    bool has_times = true;  // false: packets come in the order in which they are shown, without saying when
  };
  Timeline read_timeline();

  const FfmpegFunctions& functions() const { return f_; }
  const AVCodecParameters& codec() const { return *stream().codecpar; }
  AVRational time_base() const { return stream().time_base; }

 private:
  struct Cursor {
    std::string_view bytes;
    size_t at = 0;
  };
  VideoFile(const FfmpegFunctions& functions, std::string_view bytes, TrackKind kind)
      : f_(functions), cursor_{bytes, 0}, kind_(kind) {}
  std::optional<Error> begin();
  std::optional<Error> find_track();
  std::optional<Error> check_pictures() const;
  bool has_index() const;
  Error unreadable(int code) const;
  int64_t frames_in_index() const;
  bool is_truncated() const;
  AVStream& stream() const { return *format_->streams[stream_]; }
  static int read_bytes(void* cursor, uint8_t* to, int size);
  static int64_t move_to(void* cursor, int64_t offset, int whence);

  const FfmpegFunctions& f_;
  Cursor cursor_;
  TrackKind kind_;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
  AVPacket* packet_ = nullptr;
  int stream_ = -1;
};

// Decoders that are trusted with untrusted files, and options that limit them.
void set_decoder_limits(const FfmpegFunctions& functions, AVDictionary** options);

}  // namespace hone::media
