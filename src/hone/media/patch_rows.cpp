// Converts decoded images to the patch rows that a vision tower reads.
#include <algorithm>
#include <bit>
#include <cstring>

#include "hone/base/error.h"
#include "hone/media/image_processor.h"
#include "hone/media/pixel_memory.h"

namespace hone::media {
namespace {

using ValueTable = std::array<std::array<float, 256>, 3>;

// transformers' arithmetic: 1/255 in float64, then float32; or torchvision's, all in float32.
ValueTable normalized_values(const ImageProcessorConfig& config) {
  ValueTable table;
  for (size_t c = 0; c < 3; ++c)
    for (size_t value = 0; value < 256; ++value) {
      const float scaled = config.divides_by_255 ? static_cast<float>(value) / 255.0f
                                                 : static_cast<float>(static_cast<double>(value) * config.rescale_factor);
      table[c][value] = (scaled - static_cast<float>(config.mean[c])) / static_cast<float>(config.std[c]);
    }
  return table;
}

struct PatchShape {
  size_t width, merge, frames;  // a still image is repeated to fill a temporal patch
  size_t values() const { return 3 * frames * width * width; }
};

// Byte `i` of a line of `kBytes` bytes, out of the word that holds it: the bytes of a word are read at once.
template <size_t kBytes>
uint8_t byte_of_line(const uint8_t* line, size_t i) {
  static_assert(std::endian::native == std::endian::little && kBytes >= 8);
  const size_t begin = std::min(i / 8 * 8, kBytes - 8);
  uint64_t word;
  std::memcpy(&word, line + begin, sizeof word);
  return static_cast<uint8_t>(word >> (8 * (i - begin)));
}

// One channel of a line. Common widths are looked up four samples at a time.
template <size_t kWidth>
void fill_line(const uint8_t* __restrict samples, const std::array<float, 256>& values, size_t, float* __restrict to) {
  using Four = float __attribute__((vector_size(16)));
  using Two = float __attribute__((vector_size(8)));
  static_assert(kWidth % 2 == 0);
  auto value = [&](size_t x) { return values[byte_of_line<3 * kWidth - 2>(samples, 3 * x)]; };
#pragma GCC unroll 4
  for (size_t x = 0; x + 4 <= kWidth; x += 4) {
    const Four four{value(x), value(x + 1), value(x + 2), value(x + 3)};
    std::memcpy(to + x, &four, sizeof four);
  }
  if constexpr (kWidth % 4 != 0) {
    const Two two{value(kWidth - 2), value(kWidth - 1)};
    std::memcpy(to + kWidth - 2, &two, sizeof two);
  }
}

template <>
void fill_line<0>(const uint8_t* samples, const std::array<float, 256>& values, size_t width, float* to) {
  for (size_t x = 0; x < width; ++x) to[x] = values[samples[3 * x]];
}

// Writes one patch from its first value to its last: long contiguous writes are faster.
template <size_t kWidth>
void fill_patch(const uint8_t* pixels, size_t stride, const PatchShape& shape, const ValueTable& table, float* row) {
  const size_t width = kWidth > 0 ? kWidth : shape.width, frame = width * width;
  for (size_t c = 0; c < 3; ++c) {
    float* const first = row;
    for (size_t y = 0; y < width; ++y, row += width) fill_line<kWidth>(pixels + y * stride + c, table[c], width, row);
    for (size_t t = 1; t < shape.frames; ++t) row = std::copy_n(first, frame, row);
  }
}

auto fill_patch_of(size_t width) {
  if (width == 14) return fill_patch<14>;
  if (width == 16) return fill_patch<16>;
  return fill_patch<0>;
}

// The rows of an image that is one frame or a grid of tiles, resized band by band: a band is a row of merge blocks in every tile
// that it crosses.
void fill_frames(const Image& image, ImageSize to, Filter filter, const ImageGeometry& geometry,
                 const ImageProcessorConfig& config, std::span<float> rows) {
  const auto table = normalized_values(config);
  const PatchShape shape{static_cast<size_t>(config.patch_size), static_cast<size_t>(config.merge_size),
                         static_cast<size_t>(config.temporal_patch_size)};
  const auto fill = fill_patch_of(shape.width);
  const auto stride = 3 * static_cast<size_t>(to.width), grid_h = static_cast<size_t>(geometry.grid_h),
             grid_w = static_cast<size_t>(geometry.grid_w), across = static_cast<size_t>(to.width) / (grid_w * shape.width);
  resize_in_bands(image, to, filter, config.patch_size * config.merge_size, [&](int64_t top, int64_t, const uint8_t* pixels) {
    const size_t line = static_cast<size_t>(top) / shape.width, frames_above = line / grid_h * across;
    for (size_t i = 0; i < across; ++i) {
      float* row = rows.data() + ((frames_above + i) * grid_h + line % grid_h) * grid_w * shape.values();
      for (size_t block = 0; block < grid_w; block += shape.merge)
        for (size_t y = 0; y < shape.merge; ++y)
          for (size_t x = block; x < block + shape.merge; ++x, row += shape.values())
            fill(pixels + y * shape.width * stride + 3 * (i * grid_w + x) * shape.width, stride, shape, table, row);
    }
  });
}

}  // namespace

void fill_patch_rows(Image image, const ImageGeometry& geometry, const ImageProcessorConfig& config, std::span<float> rows) {
  HONE_CHECK(image.size == geometry.source && static_cast<int64_t>(rows.size()) == geometry.patches() * config.row_size(),
             "a picture of {} x {} for the geometry of another one", image.size.width, image.size.height);
  const ImageSize frame{geometry.grid_w * config.patch_size, geometry.grid_h * config.patch_size};
  for (const auto& step : geometry.steps) {
    const bool is_last = &step == &geometry.steps.back();
    if (step.to_rgb) image = to_rgb(std::move(image));
    if (is_last && geometry.has_thumbnail)
      fill_frames(image, frame, step.filter, geometry, config, rows.last(rows.size() / static_cast<size_t>(geometry.frames)));
    if (step.from) image = crop(image, *step.from);
    if (is_last)
      fill_frames(image, step.to, step.filter, geometry, config, rows);
    else
      image = resize(image, step.to, step.filter);
  }
  if (geometry.steps.empty()) fill_frames(image, image.size, Filter::bicubic, geometry, config, rows);
  recycle_pixels(std::move(image.pixels));
}

}  // namespace hone::media
