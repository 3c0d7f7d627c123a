#include "hone/train/reports/figure.h"

#include <cairo-svg.h>

#include <algorithm>
#include <cmath>

#include "hone/train/reports/axis.h"
#include "hone/train/reports/with_cairo/drawing.h"
#include "hone/train/reports/with_cairo/png.h"

namespace hone::train {
namespace {

constexpr Color kPaper{1, 1, 1}, kInk{0.15, 0.17, 0.2}, kSoftInk{0.42, 0.45, 0.5}, kGrid{0.91, 0.92, 0.935},
    kMarker{0.76, 0.33, 0.1};
constexpr Color kPalette[] = {{0.12, 0.44, 0.92}, {0.85, 0.42, 0.05}, {0.10, 0.50, 0.25},
                              {0.51, 0.31, 0.87}, {0.75, 0.10, 0.35}, {0.35, 0.38, 0.42}};
constexpr double kPixelsPerUnit = 1.5;  // scale of the PNG, for high-density screens
constexpr double kTitleHeight = 46;

struct Frame {
  double left, top, right, bottom;
  const Axis &x, &y;
  Point at(double across, double up) const {
    return {left + x.fraction(across) * (right - left), bottom - y.fraction(up) * (bottom - top)};
  }
};

// The minimum and maximum of every half-pixel column: a long run's curve looks the same and stays small as SVG.
std::vector<Point> thinned(const std::vector<Point>& points) {
  constexpr double kColumn = 0.5;
  std::vector<Point> kept;
  for (size_t first = 0; first < points.size();) {
    size_t end = first, low = first, high = first;
    for (; end < points.size() && points[end].x < points[first].x + kColumn; ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    kept.push_back(points[std::min(low, high)]);
    if (low != high) kept.push_back(points[std::max(low, high)]);
    first = end;
  }
  return kept;
}

// Segments between non-finite values; an isolated point is a dot.
void draw_values(Drawing& drawing, const Frame& frame, const std::vector<double>& x, const std::vector<double>& y, Color color,
                 double width, double opacity, bool dots) {
  std::vector<Point> piece;
  auto flush = [&] {
    if (piece.size() == 1 || dots)
      for (const auto& point : piece) drawing.dot(point, width + 1.2, color);
    drawing.line(thinned(piece), color, width, opacity);
    piece.clear();
  };
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (std::isfinite(x[i]) && std::isfinite(y[i]))
      piece.push_back(frame.at(x[i], y[i]));
    else
      flush();
  }
  flush();
}

void draw_axes(Drawing& drawing, const Frame& frame, const Chart& chart) {
  const TextStyle right{.size = 11, .color = kSoftInk, .anchor = Anchor::end},
      middle{.size = 11, .color = kSoftInk, .anchor = Anchor::middle};
  for (double tick : frame.y.ticks()) {
    double y = std::round(frame.at(frame.x.low(), tick).y) + 0.5;
    drawing.line({{frame.left, y}, {frame.right, y}}, kGrid, 1);
    drawing.text({frame.left - 8, y + 4}, frame.y.tick_text(tick), right);
  }
  for (double tick : frame.x.ticks()) {
    double x = std::round(frame.at(tick, frame.y.low()).x) + 0.5;
    drawing.line({{x, frame.bottom}, {x, frame.bottom + 5}}, kSoftInk, 1);
    drawing.text({x, frame.bottom + 19}, frame.x.tick_text(tick), middle);
  }
  drawing.line({{frame.left, frame.bottom + 0.5}, {frame.right, frame.bottom + 0.5}}, kSoftInk, 1);
  drawing.text({frame.left - 8, frame.top - 8}, frame.y.factor_text(), right);
  drawing.text({frame.right, frame.bottom + 34}, frame.x.factor_text(), right);
  drawing.text({(frame.left + frame.right) / 2, frame.bottom + 38}, chart.x.label, {.size = 12, .anchor = Anchor::middle});
  drawing.text({frame.left - 58, (frame.top + frame.bottom) / 2}, chart.y.label,
               {.size = 12, .anchor = Anchor::middle, .upwards = true});
}

struct LegendEntry {
  std::string text;
  Color color;
  double width, opacity;
};

std::vector<LegendEntry> legend_of(const Chart& chart) {
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const auto& series = chart.series[i];
    auto color = kPalette[i % std::size(kPalette)];
    bool smooth = !series.smoothed.empty();
    entries.push_back({series.name, color, 1.5, smooth ? 0.35 : 1.0});
    if (smooth) entries.push_back({"smoothed", color, 2.2, 1});
  }
  return entries;
}

// Above the plot, right-aligned, so that it never covers a curve. A single curve needs none.
void draw_legend(Drawing& drawing, const Frame& frame, const Chart& chart) {
  auto entries = legend_of(chart);
  if (entries.size() < 2) return;
  double x = frame.right;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    x -= drawing.text_width(entry->text, {.size = 11});
    drawing.text({x, frame.top - 22}, entry->text, {.size = 11});
    drawing.line({{x - 28, frame.top - 26}, {x - 7, frame.top - 26}}, entry->color, entry->width, entry->opacity);
    x -= 44;
  }
}

void draw_markers(Drawing& drawing, const Frame& frame, const std::vector<Marker>& markers) {
  for (const auto& marker : markers) {
    double x = frame.at(marker.x, frame.y.low()).x;
    bool left = x > (frame.left + frame.right) / 2;
    drawing.line({{x, frame.top}, {x, frame.bottom}}, kMarker, 1, 0.8);
    drawing.text({x + (left ? -5 : 5), frame.bottom - 8}, marker.text,
                 {.size = 11, .color = kMarker, .anchor = left ? Anchor::end : Anchor::start});
  }
}

void draw_chart(Drawing& drawing, const Chart& chart, Point corner, double width, double height) {
  std::vector<double> across, up;
  for (const auto& series : chart.series) {
    across.insert(across.end(), series.x.begin(), series.x.end());
    up.insert(up.end(), series.y.begin(), series.y.end());
  }
  const double left = corner.x + 84, right = corner.x + width - 24;
  const Axis x(chart.x, across, static_cast<int>((right - left) / 70), false),
      y(chart.y, up, static_cast<int>((height - 100) / 45), true);
  const Frame frame{left, corner.y + 48, right, corner.y + height - 52, x, y};
  drawing.text({frame.left, frame.top - 22}, chart.title, {.size = 14, .bold = true});
  draw_axes(drawing, frame, chart);
  drawing.clip({frame.left - 4, frame.top - 4}, frame.right - frame.left + 8, frame.bottom - frame.top + 8);
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const auto& series = chart.series[i];
    auto color = kPalette[i % std::size(kPalette)];
    bool smooth = !series.smoothed.empty();
    draw_values(drawing, frame, series.x, series.y, color, 1.5, smooth ? 0.35 : 1, series.dots);
    if (smooth) draw_values(drawing, frame, series.x, series.smoothed, color, 2.2, 1, false);
  }
  drawing.unclip();
  draw_markers(drawing, frame, chart.markers);
  draw_legend(drawing, frame, chart);
}

struct Size {
  double width, height;
};

Size size_of(const Figure& figure) {
  auto count = static_cast<int>(figure.charts.size());
  int rows = std::max(1, (count + figure.columns - 1) / figure.columns);
  return {figure.chart_width * figure.columns, figure.chart_height * rows + (figure.title.empty() ? 0 : kTitleHeight)};
}

void draw_figure(Drawing& drawing, const Figure& figure) {
  auto size = size_of(figure);
  drawing.fill_box({0, 0}, size.width, size.height, kPaper);
  double y = 0;
  if (!figure.title.empty()) {
    drawing.text({24, 34}, figure.title, {.size = 17, .color = kInk, .bold = true});
    y = kTitleHeight;
  }
  int column = 0, spare = static_cast<int>(figure.charts.size()) % figure.columns;
  for (size_t i = 0; i < figure.charts.size(); ++i) {
    int span = i == 0 && spare > 0 ? figure.columns - spare + 1 : 1;
    draw_chart(drawing, figure.charts[i], {column * figure.chart_width, y}, figure.chart_width * span, figure.chart_height);
    column += span;
    if (column >= figure.columns) column = 0, y += figure.chart_height;
  }
}

cairo_status_t append(void* text, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) throw std::runtime_error(fmt::format("Cairo: {}", cairo_status_to_string(status)));
}

std::string png_of(const Figure& figure) {
  auto size = size_of(figure);
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(size.width * kPixelsPerUnit),
                                             static_cast<int>(size.height * kPixelsPerUnit)),
                  &cairo_surface_destroy);
  Drawing drawing(surface.get(), kPixelsPerUnit);
  draw_figure(drawing, figure);
  check(cairo_surface_status(surface.get()));
  return encode_png(surface.get());
}

std::string svg_of(const Figure& figure) {
  auto size = size_of(figure);
  std::string text;
  {
    Surface surface(cairo_svg_surface_create_for_stream(&append, &text, size.width, size.height), &cairo_surface_destroy);
    Drawing drawing(surface.get());
    draw_figure(drawing, figure);
    cairo_surface_finish(surface.get());
    check(cairo_surface_status(surface.get()));
  }
  return text;
}

}  // namespace

bool can_draw() { return true; }
void require_drawing() {}

void write_figure(const fs::path& png, const Figure& figure) {
  if (png.extension() != ".svg") write_file_atomically(png, png_of(figure));
  write_file_atomically(fs::path(png).replace_extension(".svg"), svg_of(figure));
}

}  // namespace hone::train
