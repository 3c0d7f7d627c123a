#include "hone/media/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "hone/base/error.h"
#include "hone/media/column_taps.h"
#include "hone/media/pixel_memory.h"
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

// The filter taps of every output sample along one axis.
class TapTable {
 public:
  TapTable(int64_t in_size, int64_t out_size, Filter filter) {
    const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
    for (int64_t out = 0; out < out_size; ++out) taps_.push_back(add_weights(out, in_size, scale, filter));
    digits_.resize(weights_.size() / kTapsAtOnce * kDigitBytes);
    size_t begin = 0;
    for (auto& taps : taps_) {
      taps.weights = std::span(weights_).subspan(begin, padded(taps.count));
      taps.digits = digits_.data() + begin / kTapsAtOnce * kDigitBytes;
      taps.start = (1 << (kWeightBits - 1)) + kSampleOffset * std::accumulate(taps.weights.begin(), taps.weights.end(), 0);
      begin += taps.weights.size();
    }
    for (size_t i = 0; i < weights_.size(); ++i)
      write_digits(weights_[i], &digits_[i / kTapsAtOnce * kDigitBytes + i % kTapsAtOnce]);
  }

  std::span<const Taps> taps() const { return taps_; }

 private:
  static size_t padded(size_t count) { return (count + kTapsAtOnce - 1) / kTapsAtOnce * kTapsAtOnce; }

  static void write_digits(int32_t weight, int8_t* to) {
    const auto low = static_cast<int8_t>(weight), middle = static_cast<int8_t>((weight - low) >> 8);
    const int32_t high = (((weight - low) >> 8) - middle) >> 8;
    HONE_CHECK(high >= -128 && high <= 127, "a weight of {} among those of a resize", weight);
    to[0] = low, to[kTapsAtOnce] = middle, to[2 * kTapsAtOnce] = static_cast<int8_t>(high);
  }

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
    return {static_cast<size_t>(first), exact_.size()};
  }

  std::vector<double> exact_;
  std::vector<int32_t> weights_;
  std::vector<int8_t> digits_;
  std::vector<Taps> taps_;
};

size_t row_bytes(const Image& image) { return static_cast<size_t>(image.size.width) * static_cast<size_t>(image.channels); }

// Horizontally resized rows of an image, one window at a time. Windows move downwards.
class WidenedRows {
 public:
  // `most`: number of rows of the largest window.
  WidenedRows(const Image& image, int64_t width, Filter filter, size_t most)
      : image_(image),
        in_stride_(row_bytes(image)),
        stride_(static_cast<size_t>(width) * static_cast<size_t>(image.channels)),
        rows_(width == image.size.width ? 0 : (most + kRowsAtOnce) * stride_) {
    if (width == image.size.width) return;
    table_.emplace(image.size.width, width, filter);
    columns_.emplace(table_->taps(), static_cast<size_t>(image.channels));
    // Reads must not go past the image: rows that end near its end are copied. Narrow images have several such rows.
    const size_t copied = std::min(height(), (kReadBehind + in_stride_ - 1) / in_stride_);
    first_copied_ = height() - copied;
    last_rows_.resize(copied * in_stride_ + kReadBehind);
    std::copy_n(image.pixels.data() + first_copied_ * in_stride_, copied * in_stride_, last_rows_.data());
  }

  size_t stride() const { return stride_; }

  // Rows from `first` up to `end`, in parallel.
  const uint8_t* window(size_t first, size_t end) {
    if (!table_) return image_.pixels.data() + first * stride_;
    const size_t kept = end_ > first ? end_ - first : 0;
    if (first > first_) std::copy_n(rows_.data() + (end_ - kept - first_) * stride_, kept * stride_, rows_.data());
    first_ = first, end_ = first + kept;
    while (end_ < end) add_rows();
    return rows_.data();
  }

 private:
  size_t height() const { return static_cast<size_t>(image_.size.height); }

  void add_rows() {
    const size_t added = std::min(kRowsAtOnce, height() - end_);
    const uint8_t* from[kRowsAtOnce];
    uint8_t* to[kRowsAtOnce];
    for (size_t i = 0; i < kRowsAtOnce; ++i) {
      const size_t row = end_ + std::min(i, added - 1);
      from[i] =
          row >= first_copied_ ? last_rows_.data() + (row - first_copied_) * in_stride_ : image_.pixels.data() + row * in_stride_;
      to[i] = rows_.data() + (row - first_) * stride_;
    }
    resize_columns(from, to, *columns_);
    end_ += added;
  }

  const Image& image_;
  const size_t in_stride_, stride_;
  std::optional<TapTable> table_;
  std::optional<ColumnTaps> columns_;
  size_t first_copied_ = 0, first_ = 0, end_ = 0;
  std::vector<uint8_t> last_rows_;
  ScratchPixels rows_;
};

void widen_in_bands(const Image& image, ImageSize to, Filter filter, size_t band, const TakeRows& take) {
  WidenedRows widened(image, to.width, filter, band);
  const auto height = static_cast<size_t>(to.height);
  for (size_t first = 0; first < height; first += band) {
    const size_t count = std::min(band, height - first);
    take(static_cast<int64_t>(first), static_cast<int64_t>(count), widened.window(first, first + count));
  }
}

// The rows that adjacent samples read: the first one and their count.
std::pair<size_t, size_t> rows_of(std::span<const Taps> taps) {
  return {taps.front().first, taps.back().first + taps.back().count - taps.front().first};
}

// Width first, then height.
void pass_in_bands(const Image& image, ImageSize to, Filter filter, int64_t band_rows, const TakeRows& take) {
  const auto band = static_cast<size_t>(band_rows), height = static_cast<size_t>(to.height);
  if (to.height == image.size.height) return widen_in_bands(image, to, filter, band, take);
  const TapTable table(image.size.height, to.height, filter);
  auto taps_at = [&](size_t first) { return table.taps().subspan(first, std::min(band, height - first)); };
  size_t most = 0;
  for (size_t first = 0; first < height; first += band) most = std::max(most, rows_of(taps_at(first)).second);
  WidenedRows widened(image, to.width, filter, most);
  const size_t stride = widened.stride();
  ScratchPixels rows(std::min(band, height) * stride);
  for (size_t first = 0; first < height; first += band) {
    const auto [begin, count] = rows_of(taps_at(first));
    const uint8_t* window = widened.window(begin, begin + count);
    uint8_t* out = rows.data();
    for (auto taps : taps_at(first)) {
      taps.first -= begin;
      resize_rows(window, out, stride, taps);
      out += stride;
    }
    take(static_cast<int64_t>(first), (out - rows.data()) / static_cast<int64_t>(stride), rows.data());
  }
}

Image resize_nearest(const Image& image, ImageSize to) {
  Image out{to, image.channels, image.from_palette, {}};
  const auto channels = static_cast<size_t>(image.channels);
  const double x_scale = static_cast<double>(image.size.width) / static_cast<double>(to.width),
               y_scale = static_cast<double>(image.size.height) / static_cast<double>(to.height);
  out.pixels.reserve(static_cast<size_t>(to.pixels()) * channels);
  // Positions are accumulated, not multiplied, as in Pillow: the last bit decides at borders.
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
void change_colors(Image& image, Change change) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t i = 0; i < image.pixels.size(); i += channels) {
    const int alpha = image.pixels[i + channels - 1];
    for (size_t c = 0; c + 1 < channels; ++c) image.pixels[i + c] = static_cast<uint8_t>(change(image.pixels[i + c], alpha));
  }
}

// Each pass rounds to 8 bits, so the order matters. Pillow 13 starts with the height if that removes more than twice as many rows
// as columns are removed; earlier versions always start with the width.
bool begins_with_height(ImageSize from, ImageSize to) {
  const int64_t fewer_rows = from.height - to.height, fewer_columns = from.width - to.width;
  return fewer_columns != 0 && fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
}

// All channels unchanged.
void resize_mixing(const Image& image, ImageSize to, Filter filter, int64_t band, const TakeRows& take) {
  if (!begins_with_height(image.size, to)) return pass_in_bands(image, to, filter, band, take);
  const ImageSize lower{image.size.width, to.height};
  Image lowered{lower, image.channels, image.from_palette, {}};
  pass_in_bands(image, lower, filter, to.height, [&](int64_t, int64_t count, const uint8_t* rows) {
    lowered.pixels.assign(rows, rows + static_cast<size_t>(count) * row_bytes(lowered));
  });
  pass_in_bands(lowered, to, filter, band, take);
}

}  // namespace

Image resize(const Image& image, ImageSize to, Filter filter) {
  HONE_CHECK(to.width > 0 && to.height > 0, "resize to {} x {}", to.width, to.height);
  if (to == image.size) return image;
  if (image.from_palette) return resize_nearest(image, to);
  Image flat;
  if (image.has_alpha()) change_colors(flat = image, scaled_to_255);
  constexpr int64_t kBand = 16;
  Image out{to, image.channels, image.from_palette, {}};
  const size_t stride = row_bytes(out);
  out.pixels.reserve(stride * static_cast<size_t>(to.height));
  const TakeRows append = [&](int64_t, int64_t count, const uint8_t* rows) {
    out.pixels.insert(out.pixels.end(), rows, rows + static_cast<size_t>(count) * stride);
  };
  resize_mixing(image.has_alpha() ? flat : image, to, filter, kBand, append);
  if (image.has_alpha())
    change_colors(out,
                  [](int value, int alpha) { return alpha == 0 || alpha == 255 ? value : std::min(255 * value / alpha, 255); });
  return out;
}

void resize_in_bands(const Image& image, ImageSize to, Filter filter, int64_t band, const TakeRows& take) {
  HONE_CHECK(band > 0, "bands of {} rows", band);
  if (image.from_palette || image.has_alpha()) return pass_in_bands(resize(image, to, filter), to, filter, band, take);
  resize_mixing(image, to, filter, band, take);
}

}  // namespace hone::media
