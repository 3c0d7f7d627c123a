#include "hone/train/stroke_font.h"

#include <array>
#include <string>

namespace hone::train {
namespace {

struct Drawing {
  char letter;
  const char* strokes;
};

// Points are two digits x y in half units (0-9, then a-g for 10-16); '|' lifts the pen; '~' bends a stroke smoothly through its
// points.
// clang-format off
constexpr Drawing kDrawings[] = {
    {'0', "~30 63 69 3c 09 03 30"}, {'1', "02 30 3c|0c 6c"}, {'2', "~03 30 63 57|57 0c 6c"}, {'3', "~02 30 63 36|~36 69 3c 0a"},
    {'4', "5c 50 08 78"}, {'5', "60 10 05|~05 35 68 3c 0b"}, {'6', "~50 14 08 3c 68 35 08"}, {'7', "00 60 2c"},
    {'8', "~30 53 36 13 30|~36 69 3c 09 36"}, {'9', "~1c 58 64 30 04 37 64"},
    {'a', "~34 68 3c 08 34|64 6c"}, {'b', "00 0c|~34 68 3c 08 34"}, {'c', "~66 34 08 3c 6a"}, {'d', "60 6c|~34 68 3c 08 34"},
    {'e', "08 68|~68 34 08 3c 5b"}, {'f', "~50 31 23|23 2c|04 44"}, {'g', "~34 68 3c 08 34|64 6c|~6c 3g 0f"},
    {'h', "00 0c|~07 34 67|67 6c"}, {'i', "14 1c|10 11"}, {'j', "24 2d|~2d 1g 0g|20 21"}, {'k', "00 0c|54 09|37 6c"}, {'l', "10 1c"},
    {'m', "04 0c|~07 24 47|47 4c|~47 64 87|87 8c"}, {'n', "04 0c|~07 34 67|67 6c"}, {'o', "~34 68 3c 08 34"},
    {'p', "04 0g|~34 68 3c 08 34"}, {'q', "64 6g|~34 68 3c 08 34"}, {'r', "04 0c|~08 24 44"}, {'s', "~65 34 06 38 6a 3c 0b"},
    {'t', "20 2a|~2a 3c 5c|04 54"}, {'u', "04 09|~09 3c 69|64 6c"}, {'v', "04 3c 64"}, {'w', "04 2c 46 6c 84"}, {'x', "04 6c|64 0c"},
    {'y', "04 3c|64 3c 1g"}, {'z', "04 64 0c 6c"},
    {'A', "0c 40 8c|28 68"}, {'B', "00 0c|00 40|~40 63 46|06 46|~46 79 4c|4c 0c"}, {'C', "~72 40 06 4c 7a"}, {'D', "00 0c 3c|~3c 76 30|30 00"},
    {'E', "60 00 0c 6c|06 56"}, {'F', "60 00 0c|06 56"}, {'G', "~72 40 06 4c 79|79 76 46"}, {'H', "00 0c|70 7c|06 76"}, {'I', "10 1c"},
    {'J', "50 59|~59 3c 09"}, {'K', "00 0c|70 07|35 7c"}, {'L', "00 0c 6c"}, {'M', "0c 00 4a 80 8c"}, {'N', "0c 00 7c 70"},
    {'O', "~40 86 4c 06 40"}, {'P', "0c 00 40|~40 73 46|46 06"}, {'Q', "~40 86 4c 06 40|59 8c"}, {'R', "0c 00 40|~40 73 46|46 06|36 7c"},
    {'S', "~72 40 03 46 79 4c 0a"}, {'T', "00 80|40 4c"}, {'U', "00 08|~08 3c 68|68 60"}, {'V', "00 4c 80"}, {'W', "00 2c 52 8c a0"},
    {'X', "00 7c|70 0c"}, {'Y', "00 46 80|46 4c"}, {'Z', "00 70 0c 7c"},
    {' ', ""}, {'.', "1b 1c"}, {',', "1b 1c 0e"}, {'-', "07 57"}, {'_', "0d 6d"}, {'/', "0e 50"}, {'+', "07 67|34 3a"}, {'=', "05 65|09 69"},
    {'(', "~30 07 3e"}, {')', "~00 37 0e"}, {'[', "30 00 0e 3e"}, {']', "00 30 3e 0e"}, {':', "15 16|1b 1c"}, {'\'', "10 13"},
    {'%', "80 0c|~20 42 24 02 20|~68 8a 6c 4a 68"}, {'#', "21 1b|61 5b|04 84|08 88"}, {'*', "34 3a|15 59|55 19"},
};
// clang-format on
constexpr const char* kUnknown = "02 62 6c 0c 02";

float unit(char digit) { return static_cast<float>(digit <= '9' ? digit - '0' : digit - 'a' + 10) / 2; }

// A Catmull-Rom curve through the points; an end without a neighbour repeats itself, a closed curve wraps around.
std::vector<StrokePoint> bend(const std::vector<StrokePoint>& points) {
  constexpr int kPieces = 8;
  size_t last = points.size() - 1;
  bool closed = points.front().x == points.back().x && points.front().y == points.back().y;
  std::vector<StrokePoint> curve{points.front()};
  for (size_t i = 0; i < last; ++i) {
    const auto& before = i > 0 ? points[i - 1] : closed ? points[last - 1] : points[0];
    const auto& after = i + 2 <= last ? points[i + 2] : closed ? points[1] : points[last];
    const auto &p = points[i], &q = points[i + 1];
    for (int k = 1; k <= kPieces; ++k) {
      float t = static_cast<float>(k) / kPieces;
      auto along = [t](float a, float b, float c, float d) {
        return 0.5f * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t + (3 * b - a - 3 * c + d) * t * t * t);
      };
      curve.push_back({along(before.x, p.x, q.x, after.x), along(before.y, p.y, q.y, after.y)});
    }
  }
  return curve;
}

Glyph draw(std::string_view strokes) {
  Glyph glyph;
  float right = strokes.empty() ? 1.5f : 0;
  while (!strokes.empty()) {
    auto stroke = strokes.substr(0, strokes.find('|'));
    strokes.remove_prefix(std::min(strokes.size(), stroke.size() + 1));
    bool curved = stroke.starts_with('~');
    if (curved) stroke.remove_prefix(1);
    std::vector<StrokePoint> points;
    for (size_t i = 0; i + 1 < stroke.size(); i += 3) {
      points.push_back({unit(stroke[i]), unit(stroke[i + 1])});
      right = std::max(right, points.back().x);
    }
    glyph.strokes.push_back(curved ? bend(points) : std::move(points));
  }
  glyph.advance = right + 1.5f;
  return glyph;
}

}  // namespace

const Glyph& glyph_of(char c) {
  static const auto glyphs = [] {
    std::array<Glyph, 128> made;
    made.fill(draw(kUnknown));
    for (const auto& drawing : kDrawings) made[static_cast<size_t>(drawing.letter)] = draw(drawing.strokes);
    return made;
  }();
  auto code = static_cast<unsigned char>(c);
  return glyphs[code < 128 ? code : 127];
}

}  // namespace hone::train
