#include "hone/cli/commands/inspect/sixel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "hone/base/error.h"

namespace hone::cli {
namespace {

// Levels of red, green and blue, of which a palette has all combinations: fewer than the 256 that terminals hold.
constexpr std::array<int, 3> kColorLevels{6, 7, 6};
constexpr int64_t kBandHeight = 6;

int palette_index(const std::array<int, 3>& levels) {
  return (levels[0] * kColorLevels[1] + levels[1]) * kColorLevels[2] + levels[2];
}

// Floyd and Steinberg's: the error of a pixel goes to those right of it and below.
std::vector<int> dithered(const media::Image& image) {
  const auto width = static_cast<size_t>(image.size.width), height = static_cast<size_t>(image.size.height);
  std::vector<std::array<int, 3>> row(width + 2), below(width + 2);  // errors in sixteenths, with a pixel more on both sides
  std::vector<int> indices;
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      std::array<int, 3> levels;
      for (size_t c = 0; c < 3; ++c) {
        const int wanted = std::clamp(image.pixels[3 * (y * width + x) + c] + row[x + 1][c] / 16, 0, 255),
                  last = kColorLevels[c] - 1;
        levels[c] = (wanted * last + 127) / 255;
        const int off = wanted - levels[c] * 255 / last;
        row[x + 2][c] += 7 * off;
        below[x][c] += 3 * off;
        below[x + 1][c] += 5 * off;
        below[x + 2][c] += off;
      }
      indices.push_back(palette_index(levels));
    }
    row = std::exchange(below, std::vector<std::array<int, 3>>(width + 2));
  }
  return indices;
}

// "!5~" for five equal ones; up to three are shorter as they are.
void append_run(std::string& out, char one, int64_t count) {
  if (count > 3)
    out += fmt::format("!{}{}", count, one);
  else
    out.append(static_cast<size_t>(count), one);
}

// The pixels of one colour in six lines, a character for each column.
std::string line_of(const std::vector<int>& indices, media::ImageSize size, int64_t top, int colour) {
  std::string out;
  char last = 0;
  int64_t count = 0;
  for (int64_t x = 0; x < size.width; ++x) {
    int bits = 0;
    for (int64_t y = top; y < std::min(top + kBandHeight, size.height); ++y)
      if (indices[static_cast<size_t>(y * size.width + x)] == colour) bits |= 1 << (y - top);
    const auto next = static_cast<char>('?' + bits);
    if (next != last) append_run(out, last, std::exchange(count, 0));
    last = next;
    ++count;
  }
  if (last != '?') append_run(out, last, count);
  return out;
}

}  // namespace

std::string sixel(const media::Image& image) {
  HONE_CHECK(image.pixels.size() == 3 * static_cast<size_t>(image.size.pixels()), "sixel graphics of an image that is not RGB");
  const auto indices = dithered(image);
  auto out = fmt::format("\x1bP0;1;0q\"1;1;{};{}", image.size.width, image.size.height);
  for (int r = 0; r < kColorLevels[0]; ++r)
    for (int g = 0; g < kColorLevels[1]; ++g)
      for (int b = 0; b < kColorLevels[2]; ++b)
        out += fmt::format("#{};2;{};{};{}", palette_index({r, g, b}), r * 100 / (kColorLevels[0] - 1),
                           g * 100 / (kColorLevels[1] - 1), b * 100 / (kColorLevels[2] - 1));
  for (int64_t top = 0; top < image.size.height; top += kBandHeight) {
    const auto begin = indices.begin() + top * image.size.width,
               end = indices.begin() + std::min(top + kBandHeight, image.size.height) * image.size.width;
    for (int colour : std::set<int>(begin, end)) out += fmt::format("#{}{}$", colour, line_of(indices, image.size, top, colour));
    out.back() = '-';
  }
  return out + "\x1b\\";
}

}  // namespace hone::cli
