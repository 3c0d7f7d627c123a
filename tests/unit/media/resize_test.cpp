#include "hone/media/resize.h"

#include <gtest/gtest.h>

#include <random>

#include "hone/media/resize_rows.h"

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

// On processors without dot products of bytes both are the same code.
TEST(Resize, DotProductsAndVectorsAgree) {
  for (const int channels : {1, 2, 3, 4}) {
    const auto image = noise({101, 67}, channels);
    for (const auto to : {ImageSize{56, 56}, {37, 19}, {150, 200}, {17, 67}, {103, 66}, {99, 68}, {51, 34}, {1, 1}}) {
      const auto by_dots = resize(image, to, Filter::bicubic).pixels;
      allow_resize_dots(false);
      const auto by_vectors = resize(image, to, Filter::bicubic).pixels;
      allow_resize_dots(true);
      EXPECT_EQ(by_dots, by_vectors) << channels << " channels, " << to.width << " x " << to.height;
    }
  }
}
