// libpng reports errors by longjmp, so no object with a destructor lives in the frames it jumps over.
#include "hone/train/reports/with_cairo/png.h"

#include <png.h>
#include <zlib.h>

#include <bit>
#include <csetjmp>
#include <new>

namespace hone::train {
namespace {

// Exceptions must not pass libpng's frames.
void append_bytes(png_structp png, png_bytep bytes, size_t count) {
  bool has_room = true;
  try {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), count);
  } catch (const std::bad_alloc&) {
    has_room = false;
  }
  if (!has_room) png_error(png, "out of memory");
}

void stop_at_error(png_structp png, png_const_charp) { png_longjmp(png, 1); }

void write_rows(png_structp png, png_infop info, cairo_surface_t* surface) {
  const auto* pixels = cairo_image_surface_get_data(surface);
  const int height = cairo_image_surface_get_height(surface), stride = cairo_image_surface_get_stride(surface);
  png_set_IHDR(png, info, static_cast<uint32_t>(cairo_image_surface_get_width(surface)), static_cast<uint32_t>(height), 8,
               PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);  // a run of any one color is a run of zeros
  png_set_compression_strategy(png, Z_RLE);
  png_write_info(png, info);
  // A pixel is a 32-bit number whose high byte is unused.
  constexpr bool kLittle = std::endian::native == std::endian::little;
  png_set_filler(png, 0, kLittle ? PNG_FILLER_AFTER : PNG_FILLER_BEFORE);
  if (kLittle) png_set_bgr(png);
  for (int row = 0; row < height; ++row) png_write_row(png, pixels + static_cast<ptrdiff_t>(row) * stride);
  png_write_end(png, info);
}

}  // namespace

std::string encode_png(cairo_surface_t* surface) {
  cairo_surface_flush(surface);
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, stop_at_error, nullptr);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  volatile bool is_written = false;  // as setjmp requires of what changes after it
  if (info && setjmp(png_jmpbuf(png)) == 0) {
    png_set_write_fn(png, &bytes, append_bytes, nullptr);
    write_rows(png, info, surface);
    is_written = true;
  }
  png_destroy_write_struct(&png, &info);
  if (!is_written) throw std::bad_alloc();  // nothing else can fail in memory
  return bytes;
}

}  // namespace hone::train
