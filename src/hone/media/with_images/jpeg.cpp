// libjpeg-turbo with default settings, which give the same samples as Pillow's library. It reports errors by longjmp.
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE.
#include <jpeglib.h>

#include "hone/media/pixel_memory.h"
#include "hone/media/with_images/decoders.h"

namespace hone::media {
namespace {

constexpr int kMostScans = 500;  // a progressive file with more scans is a denial-of-service attempt

struct JpegState {
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  char problem[JMSG_LENGTH_MAX] = "";
  Image image;
  std::vector<uint8_t> row;
};

void stop_at_jpeg_error(j_common_ptr info) {
  auto& state = *static_cast<JpegState*>(info->client_data);
  (*info->err->format_message)(info, state.problem);
  std::longjmp(state.back, 1);
}

void stop_with(j_common_ptr info, const char* what) {
  auto& state = *static_cast<JpegState*>(info->client_data);
  std::snprintf(state.problem, sizeof state.problem, "%s", what);
  std::longjmp(state.back, 1);
}

void ignore_jpeg_message(j_common_ptr, int) {}
void ignore_source_event(j_decompress_ptr) {}

boolean stop_at_end(j_decompress_ptr info) {
  stop_with(reinterpret_cast<j_common_ptr>(info), "the file is truncated");
  return FALSE;
}

void skip_bytes(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer)
    stop_with(reinterpret_cast<j_common_ptr>(info), "the file is truncated");
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= static_cast<size_t>(count);
}

void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans)
    stop_with(info, "more scans than any picture needs");
}

// CMYK is stored inverted, by Adobe's convention.
void append_inks(const uint8_t* row, size_t width, uint8_t* out) {
  for (size_t x = 0; x < width; ++x) {
    const int light = row[4 * x + 3];
    for (size_t c = 0; c < 3; ++c) out[3 * x + c] = static_cast<uint8_t>(light - scaled_to_255(255 - row[4 * x + c], light));
  }
}

void set_up(jpeg_decompress_struct& info, JpegState& state, std::string_view bytes) {
  jpeg_create_decompress(&info);
  info.client_data = &state;
  state.source = {};
  state.source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  state.source.bytes_in_buffer = bytes.size();
  state.source.init_source = ignore_source_event;
  state.source.fill_input_buffer = stop_at_end;
  state.source.skip_input_data = skip_bytes;
  state.source.resync_to_restart = jpeg_resync_to_restart;
  state.source.term_source = ignore_source_event;
  info.src = &state.source;
  state.progress = {};
  state.progress.progress_monitor = count_scans;
  info.progress = &state.progress;
}

void read_jpeg(jpeg_decompress_struct& info, JpegState& state) {
  jpeg_read_header(&info, TRUE);
  const bool inks = info.num_components == 4;
  info.out_color_space = inks ? JCS_CMYK : info.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  const auto width = static_cast<size_t>(info.output_width), height = static_cast<size_t>(info.output_height);
  state.image.size = {info.output_width, info.output_height};
  state.image.channels = info.num_components == 1 ? 1 : 3;
  const size_t stride = width * static_cast<size_t>(state.image.channels);
  state.image.pixels = take_pixels(stride * height);
  if (inks) state.row.resize(4 * width);
  while (info.output_scanline < info.output_height) {
    uint8_t* out = state.image.pixels.data() + info.output_scanline * stride;
    JSAMPROW row = inks ? state.row.data() : out;
    jpeg_read_scanlines(&info, &row, 1);
    if (inks) append_inks(row, width, out);
  }
  jpeg_finish_decompress(&info);
}

bool read_jpeg_guarded(jpeg_decompress_struct& info, JpegState& state, std::string_view bytes) {
  if (setjmp(state.back)) return false;
  set_up(info, state, bytes);
  read_jpeg(info, state);
  return true;
}

}  // namespace

Result<Image> decode_jpeg(std::string_view bytes, ImageSize size) {
  JpegState state{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&state.errors);
  info.client_data = &state;
  state.errors.error_exit = stop_at_jpeg_error;
  state.errors.emit_message = ignore_jpeg_message;
  const bool whole = read_jpeg_guarded(info, state, bytes);
  jpeg_destroy_decompress(&info);
  if (!whole) return error("a damaged JPEG file: {}", static_cast<const char*>(state.problem));
  if (state.image.size != size) return error("a JPEG file of two frames; expected one");
  return std::move(state.image);
}

}  // namespace hone::media
