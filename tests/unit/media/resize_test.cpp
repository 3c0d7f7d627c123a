#include "hone/media/resize.h"

#include <gtest/gtest.h>

#include <random>

using namespace hone::media;

namespace {

Image noise(ImageSize size, int channels) {
  std::mt19937 random(7);
  Image image{size, channels, false, std::vector<uint8_t>(static_cast<size_t>(size.pixels() * channels))};
  for (auto& sample : image.pixels) sample = static_cast<uint8_t>(random());
  return image;
}

std::vector<uint8_t> joined_bands(const Image& image, ImageSize to, int64_t band) {
  std::vector<uint8_t> joined;
  int64_t next = 0;
  resize_in_bands(image, to, Filter::bicubic, band, [&](int64_t first, int64_t count, const uint8_t* rows) {
    EXPECT_EQ(first, next);
    EXPECT_LE(count, band);
    next += count;
    joined.insert(joined.end(), rows, rows + count * to.width * image.channels);
  });
  EXPECT_EQ(next, to.height);
  return joined;
}

}  // namespace

// Both passes, one of them, none, and the height first.
TEST(Resize, BandsAreTheRowsOfTheWholePicture) {
  const auto image = noise({61, 47}, 3);
  for (const auto to : {ImageSize{56, 56}, {61, 20}, {30, 47}, {61, 47}, {60, 9}, {200, 140}, {1, 1}})
    for (const int64_t band : {1, 28, 1000}) EXPECT_EQ(joined_bands(image, to, band), resize(image, to, Filter::bicubic).pixels);
}

TEST(Resize, BandsOfPicturesWithAlpha) {
  const auto image = noise({40, 30}, 4);
  EXPECT_EQ(joined_bands(image, {28, 28}, 14), resize(image, {28, 28}, Filter::bicubic).pixels);
}
