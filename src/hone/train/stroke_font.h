// Letters as strokes: each glyph is a few polylines on a grid six units wide and nine high (baseline at 6, descenders below).
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace hone::train {

struct StrokePoint {
  float x, y;  // x to the right; y downwards, 0 at the top of capitals, 6 on the baseline
};

struct Glyph {
  float advance = 4;
  std::vector<std::vector<StrokePoint>> strokes;
};

inline constexpr float kCapitalHeight = 6;

// Printable ASCII; anything else is drawn as a small box.
const Glyph& glyph_of(char c);

}  // namespace hone::train
