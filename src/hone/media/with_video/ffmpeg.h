// FFmpeg's libraries, loaded when the first video is read: they pull in a hundred others, which runs without videos should not
// load, and may be missing.
#pragma once
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
}

#include "hone/base/error.h"

namespace hone::media {

struct FfmpegFunctions {
  // libavutil
  decltype(&::av_malloc) malloc;
  decltype(&::av_free) free;
  decltype(&::av_strerror) strerror;
  decltype(&::av_log_set_level) log_set_level;
  decltype(&::av_dict_set) dict_set;
  decltype(&::av_dict_free) dict_free;
  decltype(&::av_frame_alloc) frame_alloc;
  decltype(&::av_frame_free) frame_free;
  decltype(&::av_frame_unref) frame_unref;
  // libavcodec
  decltype(&::av_packet_alloc) packet_alloc;
  decltype(&::av_packet_free) packet_free;
  decltype(&::av_packet_unref) packet_unref;
  decltype(&::avcodec_find_decoder) find_decoder;
  decltype(&::avcodec_alloc_context3) alloc_context;
  decltype(&::avcodec_free_context) free_context;
  decltype(&::avcodec_parameters_to_context) parameters_to_context;
  decltype(&::avcodec_open2) open_codec;
  decltype(&::avcodec_send_packet) send_packet;
  decltype(&::avcodec_receive_frame) receive_frame;
  decltype(&::avcodec_flush_buffers) flush_buffers;
  // libavformat
  decltype(&::avformat_alloc_context) alloc_format;
  decltype(&::avformat_free_context) free_format;
  decltype(&::avformat_open_input) open_input;
  decltype(&::avformat_close_input) close_input;
  decltype(&::avformat_find_stream_info) find_stream_info;
  decltype(&::av_find_best_stream) find_best_stream;
  decltype(&::av_read_frame) read_frame;
  decltype(&::av_seek_frame) seek_frame;
  decltype(&::avformat_index_get_entries_count) index_count;
  decltype(&::avformat_index_get_entry) index_entry;
  decltype(&::avio_alloc_context) alloc_io;
  decltype(&::avio_context_free) free_io;
  // libswscale
  decltype(&::sws_getContext) get_scaler;
  decltype(&::sws_freeContext) free_scaler;
  decltype(&::sws_getCoefficients) get_coefficients;
  decltype(&::sws_setColorspaceDetails) set_colorspace;
  decltype(&::sws_scale) scale;

  std::string error_text(int code) const;
};

// The error names the missing library and how to install it.
Result<const FfmpegFunctions*> ffmpeg();

}  // namespace hone::media
