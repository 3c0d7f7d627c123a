// The range of a chart's axis, its ticks and their labels.
#pragma once
#include <string>
#include <vector>

#include "hone/train/reports/figure.h"

namespace hone::train {

class Axis {
 public:
  // Covers the finite values; `padded` adds some space at both ends. About `ticks` ticks.
  Axis(const AxisOptions& options, const std::vector<double>& values, int ticks, bool padded);

  double fraction(double value) const { return (value - low_) / (high_ - low_); }
  double low() const { return low_; }
  double high() const { return high_; }
  std::vector<double> ticks() const;
  std::string tick_text(double value) const;
  // "×1e-4" where ticks are shown in such units, else empty.
  std::string factor_text() const;

 private:
  double low_, high_, tick_;
  double scale_;
  int exponent_ = 0;
  std::string unit_;
};

}  // namespace hone::train
