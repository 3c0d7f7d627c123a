#include "hone/media/pixel_memory.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hone::media {
namespace {

constexpr size_t kMostKept = 64 << 20;  // total bytes of a thread's buffers
constexpr size_t kMostTimes = 4;        // a much larger buffer is not used for a small image

// An image, a window of its horizontally resized rows, and a band of the result.
thread_local std::array<std::vector<uint8_t>, 3> kept;

auto by_capacity = [](const auto& a, const auto& b) { return a.capacity() < b.capacity(); };

}  // namespace

std::vector<uint8_t> take_pixels(size_t size) {
  std::sort(kept.begin(), kept.end(), by_capacity);
  auto fitting = std::find_if(kept.begin(), kept.end(), [&](const auto& pixels) { return pixels.capacity() >= size; });
  if (fitting == kept.end() || fitting->capacity() / kMostTimes > size) return std::vector<uint8_t>(size);
  auto pixels = std::exchange(*fitting, {});
  pixels.resize(size);
  return pixels;
}

void recycle_pixels(std::vector<uint8_t> pixels) {
  const auto smallest = std::min_element(kept.begin(), kept.end(), by_capacity);
  size_t others = 0;
  for (const auto& each : kept) others += each.capacity();
  others -= smallest->capacity();
  if (others + pixels.capacity() <= kMostKept && pixels.capacity() > smallest->capacity()) *smallest = std::move(pixels);
}

}  // namespace hone::media
