#include "hone/train/reports/with_cairo/drawing.h"

#include <fontconfig/fontconfig.h>

#include <algorithm>
#include <map>
#include <numbers>

namespace hone::train {
namespace {

constexpr const char* kFamily = "sans-serif";

bool is_ascii(const std::string& words) {
  return std::ranges::all_of(words, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Cairo's text API uses one font without fallback for missing characters, so fontconfig selects a family that has them all.
std::string family_with(const std::string& words) {
  static std::map<std::string, std::string> known;
  if (is_ascii(words)) return kFamily;
  if (auto found = known.find(words); found != known.end()) return found->second;
  auto* pattern = FcPatternCreate();
  auto* characters = FcCharSetCreate();
  auto* at = reinterpret_cast<const FcChar8*>(words.data());
  for (int left = static_cast<int>(words.size()); left > 0;) {
    FcChar32 character = 0;
    int bytes = FcUtf8ToUcs4(at, &character, left);
    if (bytes <= 0) break;
    FcCharSetAddChar(characters, character);
    at += bytes, left -= bytes;
  }
  FcPatternAddString(pattern, FC_FAMILY, reinterpret_cast<const FcChar8*>(kFamily));
  FcPatternAddCharSet(pattern, FC_CHARSET, characters);
  FcConfigSubstitute(nullptr, pattern, FcMatchPattern);
  FcDefaultSubstitute(pattern);
  FcResult result;
  auto* match = FcFontMatch(nullptr, pattern, &result);
  FcChar8* family = nullptr;
  std::string name = kFamily;
  if (match && FcPatternGetString(match, FC_FAMILY, 0, &family) == FcResultMatch) name = reinterpret_cast<const char*>(family);
  if (match) FcPatternDestroy(match);
  FcCharSetDestroy(characters);
  FcPatternDestroy(pattern);
  return known[words] = name;
}

}  // namespace

Drawing::Drawing(cairo_surface_t* surface, double scale) : context_(cairo_create(surface), &cairo_destroy) {
  cairo_scale(context_.get(), scale, scale);
  cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(context_.get(), CAIRO_LINE_CAP_ROUND);
}

void Drawing::fill_box(Point corner, double width, double height, Color color) {
  auto* context = context_.get();
  cairo_set_source_rgb(context, color.red, color.green, color.blue);
  cairo_rectangle(context, corner.x, corner.y, width, height);
  cairo_fill(context);
}

void Drawing::line(const std::vector<Point>& points, Color color, double width, double opacity) {
  if (points.empty()) return;
  auto* context = context_.get();
  cairo_set_source_rgba(context, color.red, color.green, color.blue, opacity);
  cairo_set_line_width(context, width);
  cairo_move_to(context, points[0].x, points[0].y);
  for (const auto& point : points) cairo_line_to(context, point.x, point.y);
  cairo_stroke(context);
}

void Drawing::dot(Point center, double radius, Color color) {
  auto* context = context_.get();
  cairo_set_source_rgb(context, color.red, color.green, color.blue);
  cairo_new_sub_path(context);
  cairo_arc(context, center.x, center.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(context);
}

void Drawing::select_font(const std::string& words, const TextStyle& style) {
  cairo_select_font_face(context_.get(), family_with(words).c_str(), CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context_.get(), style.size);
}

double Drawing::text_width(const std::string& words, const TextStyle& style) {
  select_font(words, style);
  cairo_text_extents_t extents;
  cairo_text_extents(context_.get(), words.c_str(), &extents);
  return extents.x_advance;
}

double Drawing::text(Point at, const std::string& words, const TextStyle& style) {
  auto* context = context_.get();
  double width = text_width(words, style);
  double shift = style.anchor == Anchor::start ? 0 : style.anchor == Anchor::middle ? width / 2 : width;
  cairo_save(context);
  cairo_translate(context, at.x, at.y);
  if (style.upwards) cairo_rotate(context, -std::numbers::pi / 2);
  cairo_set_source_rgb(context, style.color.red, style.color.green, style.color.blue);
  cairo_move_to(context, -shift, 0);
  cairo_show_text(context, words.c_str());
  cairo_restore(context);
  return width;
}

void Drawing::clip(Point corner, double width, double height) {
  cairo_save(context_.get());
  cairo_rectangle(context_.get(), corner.x, corner.y, width, height);
  cairo_clip(context_.get());
}

void Drawing::unclip() { cairo_restore(context_.get()); }

}  // namespace hone::train
