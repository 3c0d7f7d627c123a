// Line charts as data. One of two folders implements write_figure: with_cairo/ draws, without_cairo/ reports what to install.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/base/file.h"

namespace hone::train {

struct Series {
  std::string name;
  std::vector<double> x, y;      // non-finite values show as gaps
  std::vector<double> smoothed;  // drawn strong over a pale `y`; empty: `y` alone
  bool dots = false;             // mark every point, for series of few
};

// A vertical line with a text next to it, such as a percentile.
struct Marker {
  double x;
  std::string text;
};

struct AxisOptions {
  std::string label, unit;          // the unit follows every tick's number
  std::optional<double> low, high;  // default: where the values end
  double scale = 1;                 // ticks show value * scale
  bool integers = false;            // no ticks between integers: there is no half a step
};

struct Chart {
  std::string title;
  AxisOptions x, y;
  std::vector<Series> series;
  std::vector<Marker> markers;
};

// Charts in rows of `columns`; if the last row is not full, the first chart is wide.
struct Figure {
  std::string title;
  std::vector<Chart> charts;
  int columns = 1;
  double chart_width = 800, chart_height = 450;
};

bool can_draw();
// Throws UserError(usage) where can_draw() is false.
void require_drawing();
// Writes `png`, and an SVG of the same name next to it.
void write_figure(const fs::path& png, const Figure& figure);

}  // namespace hone::train
