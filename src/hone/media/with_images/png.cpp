// libpng reports errors by longjmp, so no object with a destructor lives in the frames it jumps over.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "hone/media/with_images/decoders.h"

namespace hone::media {
namespace {

struct PngState {
  std::string_view bytes;
  size_t at = 0;
  std::string problem;
  Image image;
  std::vector<uint8_t> samples;  // as libpng gives them; 16-bit grey has two bytes a sample
  std::vector<png_bytep> rows;
  bool wide_gray = false;
};

void read_png_bytes(png_structp png, png_bytep out, size_t count) {
  auto& state = *static_cast<PngState*>(png_get_io_ptr(png));
  if (count > state.bytes.size() - state.at) png_error(png, "the file is truncated");
  std::memcpy(out, state.bytes.data() + state.at, count);
  state.at += count;
}

void stop_at_png_error(png_structp png, png_const_charp message) {
  static_cast<PngState*>(png_get_error_ptr(png))->problem = message;
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp, png_const_charp) {}

// Skips text, profiles and other chunks that can be large.
void set_limits(png_structp png) {
  png_set_user_limits(png, 1 << 20, 1 << 20);
  png_set_chunk_cache_max(png, 64);
  png_set_chunk_malloc_max(png, 8 << 20);
  static const png_byte skipped[] = "iCCP\0tEXt\0zTXt\0iTXt\0eXIf\0sPLT";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, skipped, 6);
}

// Expands palettes and small gray samples, keeps the high byte of wide ones, ignores single-color transparency.
void choose_samples(png_structp png, png_infop info, PngState& state) {
  const int depth = png_get_bit_depth(png, info), type = png_get_color_type(png, info);
  state.wide_gray = depth == 16 && type == PNG_COLOR_TYPE_GRAY;
  state.image.from_palette = type == PNG_COLOR_TYPE_PALETTE || (depth == 1 && type == PNG_COLOR_TYPE_GRAY);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16 && !state.wide_gray) png_set_strip_16(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  state.image.channels = png_get_channels(png, info);
}

void read_png(png_structp png, png_infop info, PngState& state) {
  png_read_info(png, info);
  state.image.size = {png_get_image_width(png, info), png_get_image_height(png, info)};
  choose_samples(png, info, state);
  const size_t stride = png_get_rowbytes(png, info), height = static_cast<size_t>(state.image.size.height);
  state.samples.resize(stride * height);
  for (size_t y = 0; y < height; ++y) state.rows.push_back(state.samples.data() + y * stride);
  png_read_image(png, state.rows.data());
  png_read_end(png, nullptr);
}

bool read_png_guarded(png_structp png, png_infop info, PngState& state) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &state, read_png_bytes);
  set_limits(png);
  read_png(png, info, state);
  return true;
}

}  // namespace

Result<Image> decode_png(std::string_view bytes, ImageSize size) {
  PngState state;
  state.bytes = bytes;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, stop_at_png_error, ignore_png_warning);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  const bool whole = info && read_png_guarded(png, info, state);
  png_destroy_read_struct(&png, info ? &info : nullptr, nullptr);
  if (!whole) return error("a damaged PNG file: {}", state.problem.empty() ? "no memory" : state.problem);
  if (state.image.size != size) return error("a PNG file of two headers; expected one");
  if (!state.wide_gray) {
    state.image.pixels = std::move(state.samples);
    return std::move(state.image);
  }
  // Pillow clips 16-bit grey to 255 instead of scaling it.
  state.image.pixels.resize(state.samples.size() / 2);
  for (size_t i = 0; i < state.image.pixels.size(); ++i)
    state.image.pixels[i] = state.samples[2 * i] ? 255 : state.samples[2 * i + 1];
  return std::move(state.image);
}

}  // namespace hone::media
