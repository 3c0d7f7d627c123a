#include "hone/media/with_video/video_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace hone::media {
namespace {

constexpr const char
    *kFormats = "mov,matroska,avi,mpegts,mpeg",
    *kDecoders =
        "h264,hevc,vp8,vp9,av1,libdav1d,libaom-av1,mpeg4,msmpeg4v2,msmpeg4,h263,mpeg1video,mpeg2video,mjpeg,rawvideo,"
        "aac,alac,mp3,mp3float,mp2,mp2float,opus,libopus,vorbis,flac,ac3,eac3,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s32le,pcm_u8,"
        "pcm_f32le";
constexpr const char* kExpected = "expected MP4, MOV, Matroska, WebM, AVI or MPEG";
constexpr int kBufferSize = 1 << 16;

double seconds_of(int64_t time, AVRational base) {
  return time == AV_NOPTS_VALUE || time <= 0 ? 0 : static_cast<double>(time) * av_q2d(base);
}

uint64_t byte_of(std::string_view bytes, size_t at) { return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0; }

// An EBML number at `at`, whose first byte encodes its length; advances `at`. All ones: unknown.
std::optional<uint64_t> ebml_number(std::string_view bytes, size_t& at, bool keeps_mark) {
  const uint64_t first = byte_of(bytes, at);
  int length = 1;
  while (length <= 8 && !(first & (0x100u >> length))) ++length;
  if (length > 8 || at + static_cast<size_t>(length) > bytes.size()) return std::nullopt;
  uint64_t value = keeps_mark ? first : first & ((0x100u >> length) - 1);
  for (int i = 1; i < length; ++i) value = value << 8 | byte_of(bytes, at + static_cast<size_t>(i));
  at += static_cast<size_t>(length);
  const bool unknown = !keeps_mark && value == (uint64_t{1} << (7 * length)) - 1;
  return unknown ? std::nullopt : std::optional(value);
}

// Whether a container claims to be longer than it is: AVI and Matroska write their length first.
bool ends_early(std::string_view bytes) {
  if (bytes.starts_with("RIFF")) {
    uint64_t length = 0;
    for (size_t i = 0; i < 4; ++i) length |= byte_of(bytes, 4 + i) << (8 * i);
    return length + 8 > bytes.size() + 1;  // the last chunk may lack its padding
  }
  if (!bytes.starts_with("\x1a\x45\xdf\xa3")) return false;
  constexpr uint64_t kSegment = 0x18538067;
  for (size_t at = 0; at < bytes.size();) {
    const auto id = ebml_number(bytes, at, true);
    const auto length = ebml_number(bytes, at, false);
    if (!id || !length) return false;
    if (*length > bytes.size() - at) return *id == kSegment;
    if (*id == kSegment) return false;
    at += *length;
  }
  return false;
}

bool is_rate(AVRational rate) { return rate.num > 0 && rate.den > 0; }

}  // namespace

void set_decoder_limits(const FfmpegFunctions& functions, AVDictionary** options) {
  functions.dict_set(options, "codec_whitelist", kDecoders, 0);
  functions.dict_set(options, "max_pixels", std::to_string(kMostFramePixels).c_str(), 0);
  functions.dict_set(options, "threads", "1", 0);
}

int VideoFile::read_bytes(void* opaque, uint8_t* to, int size) {
  auto& cursor = *static_cast<Cursor*>(opaque);
  const size_t count = std::min(cursor.bytes.size() - cursor.at, static_cast<size_t>(std::max(size, 0)));
  if (count == 0) return AVERROR_EOF;
  std::memcpy(to, cursor.bytes.data() + cursor.at, count);
  cursor.at += count;
  return static_cast<int>(count);
}

int64_t VideoFile::move_to(void* opaque, int64_t offset, int whence) {
  auto& cursor = *static_cast<Cursor*>(opaque);
  const auto size = static_cast<int64_t>(cursor.bytes.size());
  if (whence == AVSEEK_SIZE) return size;
  whence &= ~AVSEEK_FORCE;
  const int64_t base = whence == SEEK_CUR ? static_cast<int64_t>(cursor.at) : whence == SEEK_END ? size : 0;
  if (offset < -base || offset > size - base) return AVERROR(EINVAL);
  cursor.at = static_cast<size_t>(base + offset);
  return base + offset;
}

Result<std::unique_ptr<VideoFile>> VideoFile::open(std::string_view bytes, TrackKind kind) {
  if (bytes.empty()) return error("0 bytes; expected a video");
  const auto functions = ffmpeg();
  if (!functions) return Error{functions.error()};
  std::unique_ptr<VideoFile> file(new VideoFile(**functions, bytes, kind));
  if (auto problem = file->begin()) return std::move(*problem);
  return file;
}

VideoFile::~VideoFile() {
  if (packet_) f_.packet_free(&packet_);
  if (format_) f_.close_input(&format_);
  if (io_) {
    f_.free(io_->buffer);
    f_.free_io(&io_);
  }
}

Error VideoFile::unreadable(int code) const {
  const auto& bytes = cursor_.bytes;
  if (bytes.size() > 12 && bytes.substr(4, 4) == "ftyp")
    return error("an MP4 or MOV file without its index: it is truncated after {} bytes, or was never finished", bytes.size());
  if (ends_early(bytes)) return error("a video that is truncated after {} bytes", bytes.size());
  return error("{} bytes that are not a video ({}); {}", bytes.size(), f_.error_text(code), kExpected);
}

std::optional<Error> VideoFile::begin() {
  auto* buffer = static_cast<unsigned char*>(f_.malloc(kBufferSize));
  io_ = buffer ? f_.alloc_io(buffer, kBufferSize, 0, &cursor_, read_bytes, nullptr, move_to) : nullptr;
  if (!io_) return f_.free(buffer), error("no memory for a video");
  format_ = f_.alloc_format();
  packet_ = f_.packet_alloc();
  if (!format_ || !packet_) return error("no memory for a video");
  format_->pb = io_;
  AVDictionary* options = nullptr;
  f_.dict_set(&options, "format_whitelist", kFormats, 0);
  f_.dict_set(&options, "protocol_whitelist", "none", 0);
  f_.dict_set(&options, "codec_whitelist", kDecoders, 0);
  const int code = f_.open_input(&format_, nullptr, nullptr, &options);  // frees format_ when it fails
  f_.dict_free(&options);
  return code < 0 ? std::optional(unreadable(code)) : find_track();
}

std::optional<Error> VideoFile::find_track() {
  std::vector<AVDictionary*> options(format_->nb_streams, nullptr);
  for (auto& one : options) set_decoder_limits(f_, &one);
  const int code = f_.find_stream_info(format_, options.empty() ? nullptr : options.data());
  for (auto& one : options) f_.dict_free(&one);
  if (code < 0) return unreadable(code);
  const bool sound = kind_ == TrackKind::sound;
  stream_ = f_.find_best_stream(format_, sound ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (stream_ < 0 || (!sound && (stream().disposition & AV_DISPOSITION_ATTACHED_PIC))) {
    stream_ = -1;
    return sound ? error("a file without sound; expected a track of it")
                 : error("a file without moving pictures; expected a video");
  }
  for (unsigned i = 0; i < format_->nb_streams; ++i)
    format_->streams[i]->discard = static_cast<int>(i) == stream_ ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
  return sound ? std::nullopt : check_pictures();
}

std::optional<Error> VideoFile::check_pictures() const {
  const auto& size = codec();
  if (size.width <= 0 || size.height <= 0) return error("{} x {} pixels; expected a video", size.width, size.height);
  if (int64_t{size.width} * size.height > kMostFramePixels)
    return error("frames of {} x {} pixels; at most {} are read", size.width, size.height, kMostFramePixels);
  return std::nullopt;
}

// For MP4 and MOV, which index all samples of a track.
bool VideoFile::has_index() const {
  return std::string_view(format_->iformat->name).find("mp4") != std::string_view::npos && stream().nb_frames > 0;
}

int64_t VideoFile::samples_in_index() {
  const auto base = time_base();
  // An AAC packet decodes to a full frame, whatever its duration says; for PCM the duration is the number of samples.
  const bool is_aac = codec().codec_id == AV_CODEC_ID_AAC && codec().frame_size > 0;
  const bool is_plain = codec().codec_id == AV_CODEC_ID_PCM_S16LE || codec().codec_id == AV_CODEC_ID_PCM_S24LE;
  if (!has_index() || base.num != 1 || base.den != codec().sample_rate || !(is_aac || is_plain)) return 0;
  int64_t samples = 0;
  while (const auto* packet = next_packet()) {
    if (packet->duration <= 0) return 0;
    if (packet->flags & AV_PKT_FLAG_DISCARD) continue;
    samples += is_aac ? codec().frame_size : packet->duration;
    for (int i = 0; i < packet->side_data_elems; ++i) {
      const auto& side = packet->side_data[i];
      if (side.type != AV_PKT_DATA_SKIP_SAMPLES || side.size < 8) continue;
      uint32_t left_out[2];  // at the start and at the end of the packet, little-endian
      std::memcpy(left_out, side.data, sizeof(left_out));
      samples -= int64_t{left_out[0]} + left_out[1];
    }
  }
  return std::max<int64_t>(samples, 0);
}

// 0: the index does not contain all frames.
int64_t VideoFile::frames_in_index() const {
  if (!has_index()) return 0;
  int64_t shown = 0;
  for (int i = 0; i < f_.index_count(&stream()); ++i)
    if (const auto* entry = f_.index_entry(&stream(), i); entry && !(entry->flags & AVINDEX_DISCARD_FRAME)) ++shown;
  return shown;
}

bool VideoFile::is_truncated() const {
  if (ends_early(cursor_.bytes)) return true;
  for (int i = 0; i < f_.index_count(&stream()); ++i)
    if (const auto* entry = f_.index_entry(&stream(), i);
        entry && (entry->pos < 0 || entry->pos + entry->size > static_cast<int64_t>(cursor_.bytes.size())))
      return true;
  return false;
}

Result<VideoHeader> VideoFile::header() {
  if (is_truncated()) return error("a video that is truncated after {} bytes", cursor_.bytes.size());
  const auto& stream = this->stream();
  VideoHeader header{.size = {codec().width, codec().height}};
  header.stated_frames = std::max<int64_t>(stream.nb_frames, 0);
  header.seconds = seconds_of(stream.duration, stream.time_base);
  header.frames = frames_in_index();
  if (header.frames == 0) header.frames = read_timeline().packets;
  if (header.frames == 0) return error("a video without frames");
  if (is_rate(stream.avg_frame_rate))
    header.fps = av_q2d(stream.avg_frame_rate);
  else if (is_rate(stream.r_frame_rate))
    header.fps = av_q2d(stream.r_frame_rate);
  else if (header.seconds > 0)
    header.fps = static_cast<double>(header.frames) / header.seconds;
  if (!std::isfinite(header.fps) || header.fps <= 0) return error("a video without a frame rate");
  return header;
}

const AVPacket* VideoFile::next_packet() {
  do {
    f_.packet_unref(packet_);
    if (f_.read_frame(format_, packet_) < 0) return nullptr;
  } while (packet_->stream_index != stream_ || packet_->size == 0);
  return packet_;
}

bool VideoFile::seek_to(int64_t dts) { return f_.seek_frame(format_, stream_, dts, AVSEEK_FLAG_BACKWARD) >= 0; }

VideoFile::Timeline VideoFile::read_timeline() {
  Timeline timeline;
  while (const auto* packet = next_packet()) {
    if (packet->flags & AV_PKT_FLAG_DISCARD) continue;
    ++timeline.packets;
    timeline.has_times = timeline.has_times && packet->pts != AV_NOPTS_VALUE && packet->dts != AV_NOPTS_VALUE;
    timeline.pts.push_back(packet->pts);
    if (packet->flags & AV_PKT_FLAG_KEY) timeline.keys.push_back({packet->pts, packet->dts});
  }
  std::sort(timeline.pts.begin(), timeline.pts.end());
  std::sort(timeline.keys.begin(), timeline.keys.end(), [](const auto& a, const auto& b) { return a.pts < b.pts; });
  return timeline;
}

}  // namespace hone::media
