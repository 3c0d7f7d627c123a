// A small picture with anti-aliased lines and a stroke font, written as PNG.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "hone/base/file.h"

namespace hone::train {

struct Colour {
  uint8_t red, green, blue;
};

struct Point {
  double x, y;  // pixels, from the top left corner
};

enum class Anchor { start, middle, end };

class Canvas {
 public:
  Canvas(int width, int height, Colour background);

  int width() const { return width_; }
  int height() const { return height_; }
  void line(Point from, Point to, Colour colour, double thickness, double opacity = 1.0);
  // Drawn as one shape, so that a translucent line does not darken where its pieces meet.
  void polyline(const std::vector<Point>& points, Colour colour, double thickness, double opacity = 1.0);
  void fill(Point corner, Point opposite, Colour colour, double opacity = 1.0);
  // `height` of a capital letter in pixels; the baseline is at `at.y`. Quarter turns: 1 reads upwards.
  void text(Point at, std::string_view words, double height, Colour colour, Anchor anchor = Anchor::start, int quarter_turns = 0);
  static double text_width(std::string_view words, double height);

  void write_png(const fs::path& path) const;

 private:
  void cover(std::vector<float>& mask, Point from, Point to, double thickness) const;
  void blend(const std::vector<float>& mask, Colour colour, double opacity);
  int width_, height_;
  std::vector<uint8_t> pixels_;
};

}  // namespace hone::train
