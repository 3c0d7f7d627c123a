#include "hone/media/resize.h"

#include <algorithm>
#include <cmath>

#include "hone/base/error.h"
#include "hone/media/resize_rows.h"

namespace hone::media {
namespace {

double weight_at(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::bilinear) return x < 1.0 ? 1.0 - x : 0.0;
  constexpr double a = -0.5;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

// The taps of every output sample along one side.
class TapTable {
 public:
  TapTable(int64_t in_size, int64_t out_size, Filter filter) {
    const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
    for (int64_t out = 0; out < out_size; ++out) taps_.push_back(add_weights(out, in_size, scale, filter));
    size_t begin = 0;
    for (auto& taps : taps_) {
      taps.weights = std::span(weights_).subspan(begin, padded(taps.count));
      begin += taps.weights.size();
    }
  }

  std::span<const Taps> taps() const { return taps_; }

 private:
  static size_t padded(size_t count) { return (count + kTapsAtOnce - 1) / kTapsAtOnce * kTapsAtOnce; }

  Taps add_weights(int64_t out, int64_t in_size, double scale, Filter filter) {
    const double stretch = std::max(scale, 1.0), support = (filter == Filter::bicubic ? 2.0 : 1.0) * stretch;
    const double centre = (static_cast<double>(out) + 0.5) * scale, inverse = 1.0 / stretch;
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), in_size);
    exact_.clear();
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      exact_.push_back(weight_at(filter, (static_cast<double>(x) - centre + 0.5) * inverse));
      sum += exact_.back();
    }
    for (double weight : exact_) {
      const double fixed = (sum != 0.0 ? weight / sum : weight) * (1 << kWeightBits);
      weights_.push_back(static_cast<int32_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5));
    }
    weights_.resize(weights_.size() + padded(exact_.size()) - exact_.size());
    return {static_cast<size_t>(first), exact_.size(), {}};
  }

  std::vector<double> exact_;
  std::vector<int32_t> weights_;
  std::vector<Taps> taps_;
};

size_t row_bytes(const Image& image) { return static_cast<size_t>(image.size.width) * static_cast<size_t>(image.channels); }

Image resize_width(const Image& image, int64_t width, Filter filter) {
  Image out{{width, image.size.height}, image.channels, image.from_palette, {}};
  const size_t in_stride = row_bytes(image), out_stride = row_bytes(out), height = static_cast<size_t>(image.size.height);
  out.pixels.resize(out_stride * height);
  const TapTable table(image.size.width, width, filter);
  // Behind the picture nothing may be read: rows that end near it are copied. Narrow ones are several.
  const size_t copied = std::min(height, (kReadBehind + in_stride - 1) / in_stride), first_copied = height - copied;
  std::vector<uint8_t> last_rows(copied * in_stride + kReadBehind);
  std::copy_n(image.pixels.data() + first_copied * in_stride, copied * in_stride, last_rows.data());
  for (size_t y = 0; y < height; y += kRowsAtOnce) {
    const uint8_t* from[kRowsAtOnce];
    uint8_t* to[kRowsAtOnce];
    for (size_t i = 0; i < kRowsAtOnce; ++i) {
      const size_t row = std::min(y + i, height - 1);
      from[i] = row >= first_copied ? last_rows.data() + (row - first_copied) * in_stride : image.pixels.data() + row * in_stride;
      to[i] = out.pixels.data() + row * out_stride;
    }
    resize_columns(from, to, table.taps(), static_cast<size_t>(image.channels));
  }
  return out;
}

Image resize_height(const Image& image, int64_t height, Filter filter) {
  Image out{{image.size.width, height}, image.channels, image.from_palette, {}};
  const size_t stride = row_bytes(image);
  out.pixels.resize(stride * static_cast<size_t>(height));
  const TapTable table(image.size.height, height, filter);
  uint8_t* to = out.pixels.data();
  for (const auto& tap : table.taps()) {
    resize_rows(image.pixels.data(), to, stride, tap);
    to += stride;
  }
  return out;
}

Image resize_nearest(const Image& image, ImageSize to) {
  Image out{to, image.channels, image.from_palette, {}};
  const auto channels = static_cast<size_t>(image.channels);
  const double x_scale = static_cast<double>(image.size.width) / static_cast<double>(to.width),
               y_scale = static_cast<double>(image.size.height) / static_cast<double>(to.height);
  out.pixels.reserve(static_cast<size_t>(to.pixels()) * channels);
  // Places are summed up, not multiplied out, as Pillow does: the last bit decides at borders.
  double at_y = y_scale * 0.5;
  for (int64_t y = 0; y < to.height; ++y, at_y += y_scale) {
    const int64_t row = std::min(static_cast<int64_t>(at_y), image.size.height - 1);
    double at_x = x_scale * 0.5;
    for (int64_t x = 0; x < to.width; ++x, at_x += x_scale) {
      const int64_t column = std::min(static_cast<int64_t>(at_x), image.size.width - 1);
      const uint8_t* from = image.pixels.data() + static_cast<size_t>(row * image.size.width + column) * channels;
      out.pixels.insert(out.pixels.end(), from, from + channels);
    }
  }
  return out;
}

template <class Change>
void change_colours(Image& image, Change change) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t i = 0; i < image.pixels.size(); i += channels) {
    const int alpha = image.pixels[i + channels - 1];
    for (size_t c = 0; c + 1 < channels; ++c) image.pixels[i + c] = static_cast<uint8_t>(change(image.pixels[i + c], alpha));
  }
}

// Each pass rounds to 8 bits, so their order shows. Pillow 13 begins with the height where that loses more than twice as many
// rows as columns go; before, the width always came first.
Image resize_plain(const Image& image, ImageSize to, Filter filter) {
  if (to.width == image.size.width) return resize_height(image, to.height, filter);
  if (to.height == image.size.height) return resize_width(image, to.width, filter);
  const int64_t fewer_rows = image.size.height - to.height, fewer_columns = image.size.width - to.width;
  if (fewer_rows > 0 && fewer_rows > 2 * fewer_columns)
    return resize_width(resize_height(image, to.height, filter), to.width, filter);
  return resize_height(resize_width(image, to.width, filter), to.height, filter);
}

}  // namespace

Image resize(const Image& image, ImageSize to, Filter filter) {
  HONE_CHECK(to.width > 0 && to.height > 0, "resize to {} x {}", to.width, to.height);
  if (to == image.size) return image;
  if (image.from_palette) return resize_nearest(image, to);
  if (!image.has_alpha()) return resize_plain(image, to, filter);
  Image flat = image;
  change_colours(flat, scaled_to_255);
  auto out = resize_plain(flat, to, filter);
  change_colours(out,
                 [](int value, int alpha) { return alpha == 0 || alpha == 255 ? value : std::min(255 * value / alpha, 255); });
  return out;
}

}  // namespace hone::media
