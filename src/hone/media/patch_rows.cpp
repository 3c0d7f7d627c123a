// The rows of patches that a tower reads, out of decoded pictures.
#include <algorithm>

#include "hone/base/error.h"
#include "hone/media/image_processor.h"

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

// One channel of a row of a patch. Widths that towers have are unrolled.
template <int64_t kWidth>
float* append_samples(const uint8_t* from, const std::array<float, 256>& values, int64_t width, float* row) {
  if constexpr (kWidth > 0) width = kWidth;
  for (int64_t x = 0; x < width; ++x) row[x] = values[from[3 * x]];
  return row + width;
}

// The patches of one frame in the order of merge blocks, out of a picture whose corner (left, top) is the frame's.
template <int64_t kWidth>
float* append_frame(const Image& image, int64_t left, int64_t top, const ImagePlan& plan, const ImageProcessorConfig& config,
                    const ValueTable& table, float* row) {
  const int64_t patch = config.patch_size, merge = config.merge_size;
  const auto stride = 3 * static_cast<size_t>(image.size.width), frame = static_cast<size_t>(patch * patch);
  auto fill_patch = [&](int64_t y0, int64_t x0) {
    const uint8_t* corner = image.pixels.data() + static_cast<size_t>(y0) * stride + 3 * static_cast<size_t>(x0);
    for (size_t c = 0; c < 3; ++c) {
      float* first = row;
      for (int64_t y = 0; y < patch; ++y)
        row = append_samples<kWidth>(corner + static_cast<size_t>(y) * stride + c, table[c], patch, row);
      // A still picture is as many equal frames as the tower joins.
      for (int64_t t = 1; t < config.temporal_patch_size; ++t) row = std::copy(first, first + frame, row);
    }
  };
  for (int64_t by = 0; by < plan.grid_h; by += merge)
    for (int64_t bx = 0; bx < plan.grid_w; bx += merge)
      for (int64_t y = by; y < by + merge; ++y)
        for (int64_t x = bx; x < bx + merge; ++x) fill_patch(top + y * patch, left + x * patch);
  return row;
}

auto append_frame_of(int64_t patch_size) {
  if (patch_size == 14) return append_frame<14>;
  if (patch_size == 16) return append_frame<16>;
  return append_frame<0>;
}

}  // namespace

void fill_patch_rows(Image image, const ImagePlan& plan, const ImageProcessorConfig& config, std::span<float> rows) {
  HONE_CHECK(image.size == plan.source && static_cast<int64_t>(rows.size()) == plan.patches() * config.row_size(),
             "a picture of {} x {} for another plan", image.size.width, image.size.height);
  const auto table = normalized_values(config);
  const int64_t height = plan.grid_h * config.patch_size, width = plan.grid_w * config.patch_size;
  Image thumbnail;
  for (const auto& step : plan.steps) {
    if (step.to_rgb) image = to_rgb(std::move(image));
    if (plan.has_thumbnail && &step == &plan.steps.back()) thumbnail = resize(image, {width, height}, step.filter);
    if (step.from) image = crop(image, *step.from);
    image = resize(image, step.to, step.filter);
  }
  const auto append = append_frame_of(config.patch_size);
  float* row = rows.data();
  for (int64_t top = 0; top < image.size.height; top += height)
    for (int64_t left = 0; left < image.size.width; left += width) row = append(image, left, top, plan, config, table, row);
  if (plan.has_thumbnail) append(thumbnail, 0, 0, plan, config, table, row);
}

}  // namespace hone::media
