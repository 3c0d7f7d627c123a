// A video in memory, taken apart into packets. Nothing but these bytes is ever read: no other file, no address.
#pragma once
#include <memory>
#include <vector>

#include "hone/media/decode_video.h"
#include "hone/media/with_video/ffmpeg.h"

namespace hone::media {

class VideoFile {
 public:
  static Result<std::unique_ptr<VideoFile>> open(std::string_view bytes);
  ~VideoFile();
  VideoFile(const VideoFile&) = delete;

  Result<VideoHeader> header();

  // The next packet of the pictures, null at the end. It is valid until the next call.
  const AVPacket* next_packet();
  bool seek_to(int64_t dts);

  // When frames are shown, in order, and the packets that decoding can begin with. It reads on to the end of the file.
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

 private:
  struct Cursor {
    std::string_view bytes;
    size_t at = 0;
  };
  explicit VideoFile(const FfmpegFunctions& functions, std::string_view bytes) : f_(functions), cursor_{bytes, 0} {}
  std::optional<Error> begin();
  std::optional<Error> find_pictures();
  Error unreadable(int code) const;
  int64_t frames_in_index() const;
  bool is_cut_off() const;
  AVStream& stream() const { return *format_->streams[stream_]; }
  static int read_bytes(void* cursor, uint8_t* to, int size);
  static int64_t move_to(void* cursor, int64_t offset, int whence);

  const FfmpegFunctions& f_;
  Cursor cursor_;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
  AVPacket* packet_ = nullptr;
  int stream_ = -1;
};

// Decoders that are trusted with files of strangers, and options that bound what they take.
void set_decoder_limits(const FfmpegFunctions& functions, AVDictionary** options);

}  // namespace hone::media
