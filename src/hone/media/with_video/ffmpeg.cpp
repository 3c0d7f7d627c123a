#include "hone/media/with_video/ffmpeg.h"

#include <dlfcn.h>

#include <array>

namespace hone::media {
namespace {

// One of the libraries, in the version of the headers at compile time: struct layouts differ between versions.
class SharedLibrary {
 public:
  SharedLibrary(const char* name, int version)
      : file_(fmt::format("lib{}.so.{}", name, version)), handle_(::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL)) {}

  template <class Function>
  void bind(Function& function, const char* name) {
    function = handle_ ? reinterpret_cast<Function>(::dlsym(handle_, name)) : nullptr;
    if (!function && missing_.empty()) missing_ = handle_ ? fmt::format("{} has no {}", file_, name) : file_ + " is not there";
  }
  const std::string& missing() const { return missing_; }

 private:
  std::string file_;
  void* handle_;
  std::string missing_;
};

Result<FfmpegFunctions> load_ffmpeg() {
  FfmpegFunctions f{};
  SharedLibrary util("avutil", LIBAVUTIL_VERSION_MAJOR), codec("avcodec", LIBAVCODEC_VERSION_MAJOR),
      format("avformat", LIBAVFORMAT_VERSION_MAJOR), scale("swscale", LIBSWSCALE_VERSION_MAJOR);
  util.bind(f.malloc, "av_malloc");
  util.bind(f.free, "av_free");
  util.bind(f.strerror, "av_strerror");
  util.bind(f.log_set_level, "av_log_set_level");
  util.bind(f.dict_set, "av_dict_set");
  util.bind(f.dict_free, "av_dict_free");
  util.bind(f.frame_alloc, "av_frame_alloc");
  util.bind(f.frame_free, "av_frame_free");
  util.bind(f.frame_unref, "av_frame_unref");
  codec.bind(f.packet_alloc, "av_packet_alloc");
  codec.bind(f.packet_free, "av_packet_free");
  codec.bind(f.packet_unref, "av_packet_unref");
  codec.bind(f.find_decoder, "avcodec_find_decoder");
  codec.bind(f.alloc_context, "avcodec_alloc_context3");
  codec.bind(f.free_context, "avcodec_free_context");
  codec.bind(f.parameters_to_context, "avcodec_parameters_to_context");
  codec.bind(f.open_codec, "avcodec_open2");
  codec.bind(f.send_packet, "avcodec_send_packet");
  codec.bind(f.receive_frame, "avcodec_receive_frame");
  codec.bind(f.flush_buffers, "avcodec_flush_buffers");
  format.bind(f.alloc_format, "avformat_alloc_context");
  format.bind(f.free_format, "avformat_free_context");
  format.bind(f.open_input, "avformat_open_input");
  format.bind(f.close_input, "avformat_close_input");
  format.bind(f.find_stream_info, "avformat_find_stream_info");
  format.bind(f.find_best_stream, "av_find_best_stream");
  format.bind(f.read_frame, "av_read_frame");
  format.bind(f.seek_frame, "av_seek_frame");
  format.bind(f.index_count, "avformat_index_get_entries_count");
  format.bind(f.index_entry, "avformat_index_get_entry");
  format.bind(f.alloc_io, "avio_alloc_context");
  format.bind(f.free_io, "avio_context_free");
  scale.bind(f.get_scaler, "sws_getContext");
  scale.bind(f.free_scaler, "sws_freeContext");
  scale.bind(f.get_coefficients, "sws_getCoefficients");
  scale.bind(f.set_colorspace, "sws_setColorspaceDetails");
  scale.bind(f.scale, "sws_scale");
  for (const auto* library : {&util, &codec, &format, &scale})
    if (!library->missing().empty())
      return error(
          "{}, which reads video files; install FFmpeg's libraries (libavformat, libavcodec, libswscale), or give a list of "
          "frames",
          library->missing());
  f.log_set_level(AV_LOG_QUIET);  // problems are returned as the row's error
  return f;
}

}  // namespace

std::string FfmpegFunctions::error_text(int code) const {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  strerror(code, text.data(), text.size());
  return text.data();
}

Result<const FfmpegFunctions*> ffmpeg() {
  static const auto loaded = load_ffmpeg();
  if (!loaded) return Error{loaded.error()};
  return &*loaded;
}

}  // namespace hone::media
