// A Cairo context over one surface: lines, boxes and text in pixels from the top left corner.
#pragma once
#include <cairo.h>

#include <memory>
#include <string>
#include <vector>

namespace hone::train {

struct Color {
  double red, green, blue;
};

struct Point {
  double x, y;
};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 12;
  Color color{0.15, 0.17, 0.2};
  Anchor anchor = Anchor::start;
  bool bold = false;
  bool upwards = false;  // reads from bottom to top
};

class Drawing {
 public:
  // Draws to `surface`, which must outlive the drawing.
  explicit Drawing(cairo_surface_t* surface, double scale = 1);

  void fill_box(Point corner, double width, double height, Color color);
  // One path, so that a translucent line does not darken where its segments overlap.
  void line(const std::vector<Point>& points, Color color, double width, double opacity = 1);
  void dot(Point center, double radius, Color color);
  // The baseline is at `at.y`; returns the width.
  double text(Point at, const std::string& words, const TextStyle& style = {});
  double text_width(const std::string& words, const TextStyle& style = {});
  // Lines outside of the box are not shown until unclip().
  void clip(Point corner, double width, double height);
  void unclip();

 private:
  void select_font(const std::string& words, const TextStyle& style);
  std::unique_ptr<cairo_t, decltype(&cairo_destroy)> context_;
};

}  // namespace hone::train
