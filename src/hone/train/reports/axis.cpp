#include "hone/train/reports/axis.h"

#include <algorithm>
#include <cmath>

namespace hone::train {
namespace {

// 1, 2, 2.5 or 5 times a power of ten, near `rough`.
double round_distance(double rough) {
  double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 2.5, 5.0})
    if (power * factor >= rough * 0.75) return power * factor;
  return power * 10;
}

int decimals_of(double tick) {
  for (int digits = 0; digits < 9; ++digits)
    if (double shifted = tick * std::pow(10.0, digits); std::abs(shifted - std::round(shifted)) < 1e-6 * shifted) return digits;
  return 9;
}

}  // namespace

Axis::Axis(const AxisOptions& options, const std::vector<double>& values, int ticks, bool padded)
    : scale_(options.scale), unit_(options.unit) {
  double low = INFINITY, high = -INFINITY;
  for (double value : values)
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  if (!(low <= high)) low = 0, high = 1;
  if (low == high) {
    double margin = options.integers ? 1 : low == 0 ? 0.5 : std::abs(low) * 0.05;
    low -= margin, high += margin;
  }
  if (padded) {
    double margin = (high - low) * 0.06;
    low = low >= 0 ? std::max(0.0, low - margin) : low - margin;
    high += margin;
  }
  low_ = options.low.value_or(low), high_ = options.high.value_or(high);
  if (!(high_ > low_)) high_ = low_ + 1;
  tick_ = round_distance((high_ - low_) * scale_ / ticks) / scale_;
  if (options.integers) tick_ = std::max(tick_, 1.0);
  double largest = std::max(std::abs(low_), std::abs(high_)) * scale_;
  if (largest < 1e-2 || largest >= 1e6) exponent_ = static_cast<int>(std::floor(std::log10(largest) + 1e-9));
}

std::vector<double> Axis::ticks() const {
  std::vector<double> all;
  auto first = std::ceil(low_ / tick_ - 1e-9), last = std::floor(high_ / tick_ + 1e-9);
  for (double i = first; i <= last; ++i) all.push_back(i == 0 ? 0.0 : i * tick_);
  return all;
}

std::string Axis::tick_text(double value) const {
  double factor = scale_ * std::pow(10.0, -exponent_);
  return fmt::format("{:.{}f}{}", value * factor, decimals_of(tick_ * factor), unit_);
}

std::string Axis::factor_text() const { return exponent_ == 0 ? "" : fmt::format("×1e{}", exponent_); }

}  // namespace hone::train
