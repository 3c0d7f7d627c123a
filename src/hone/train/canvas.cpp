#include "hone/train/canvas.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hone/train/stroke_font.h"

namespace hone::train {

Canvas::Canvas(int width, int height, Colour background) : width_(width), height_(height) {
  pixels_.reserve(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int i = 0; i < width * height; ++i) pixels_.insert(pixels_.end(), {background.red, background.green, background.blue});
}

// Raises `mask` to the share of each pixel that a round-capped segment covers.
void Canvas::cover(std::vector<float>& mask, Point from, Point to, double thickness) const {
  double reach = thickness / 2 + 1;
  int left = std::max(0, static_cast<int>(std::min(from.x, to.x) - reach)),
      right = std::min(width_ - 1, static_cast<int>(std::max(from.x, to.x) + reach));
  int top = std::max(0, static_cast<int>(std::min(from.y, to.y) - reach)),
      bottom = std::min(height_ - 1, static_cast<int>(std::max(from.y, to.y) + reach));
  double dx = to.x - from.x, dy = to.y - from.y, length_squared = dx * dx + dy * dy;
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      double px = x + 0.5 - from.x, py = y + 0.5 - from.y;
      double along = length_squared > 0 ? std::clamp((px * dx + py * dy) / length_squared, 0.0, 1.0) : 0.0;
      double distance = std::hypot(px - along * dx, py - along * dy);
      auto covered = static_cast<float>(std::clamp(thickness / 2 + 0.5 - distance, 0.0, 1.0));
      float& value = mask[static_cast<size_t>(y * width_ + x)];
      value = std::max(value, covered);
    }
}

void Canvas::blend(const std::vector<float>& mask, Colour colour, double opacity) {
  const uint8_t channels[3] = {colour.red, colour.green, colour.blue};
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    double share = mask[i] * opacity;
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& value = pixels_[i * 3 + c];
      value = static_cast<uint8_t>(std::lround(value * (1 - share) + channels[c] * share));
    }
  }
}

void Canvas::line(Point from, Point to, Colour colour, double thickness, double opacity) {
  polyline({from, to}, colour, thickness, opacity);
}

void Canvas::polyline(const std::vector<Point>& points, Colour colour, double thickness, double opacity) {
  std::vector<float> mask(static_cast<size_t>(width_ * height_), 0);
  for (size_t i = 1; i < points.size(); ++i) cover(mask, points[i - 1], points[i], thickness);
  if (points.size() == 1) cover(mask, points[0], points[0], thickness * 2);
  blend(mask, colour, opacity);
}

void Canvas::fill(Point corner, Point opposite, Colour colour, double opacity) {
  std::vector<float> mask(static_cast<size_t>(width_ * height_), 0);
  for (int y = std::max(0, static_cast<int>(corner.y)); y < std::min(height_, static_cast<int>(opposite.y)); ++y)
    for (int x = std::max(0, static_cast<int>(corner.x)); x < std::min(width_, static_cast<int>(opposite.x)); ++x)
      mask[static_cast<size_t>(y * width_ + x)] = 1;
  blend(mask, colour, opacity);
}

double Canvas::text_width(std::string_view words, double height) {
  double width = 0;
  for (char c : words) width += glyph_of(c).advance;
  return words.empty() ? 0 : (width - 1.5) * height / kCapitalHeight;
}

void Canvas::text(Point at, std::string_view words, double height, Colour colour, Anchor anchor, int quarter_turns) {
  double scale = height / kCapitalHeight, thickness = std::max(1.0, height * 0.13);
  double shift = anchor == Anchor::start ? 0 : text_width(words, height) * (anchor == Anchor::middle ? 0.5 : 1.0);
  double pen = -shift;
  std::vector<float> mask(static_cast<size_t>(width_ * height_), 0);
  auto place = [&](StrokePoint point) {
    double x = pen + point.x * scale, y = (point.y - kCapitalHeight) * scale;
    return quarter_turns == 1 ? Point{at.x + y, at.y - x} : Point{at.x + x, at.y + y};
  };
  for (char c : words) {
    const auto& glyph = glyph_of(c);
    for (const auto& stroke : glyph.strokes)
      for (size_t i = 1; i < stroke.size(); ++i) cover(mask, place(stroke[i - 1]), place(stroke[i]), thickness);
    pen += glyph.advance * scale;
  }
  blend(mask, colour, 1.0);
}

void Canvas::write_png(const fs::path& path) const {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width_);
  image.height = static_cast<png_uint_32>(height_);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  HONE_CHECK(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels_.data(), 0, nullptr), "{}", image.message);
  write_file_atomically(path, std::string_view(bytes).substr(0, size));
}

}  // namespace hone::train
