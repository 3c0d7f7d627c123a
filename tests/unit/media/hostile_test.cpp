// Every file under tests/hostile/image is a picture of the size that its header says, or an error that says what was found.
#include <gtest/gtest.h>

#include <set>

#include "hone/base/file.h"
#include "hone/media/decode_image.h"
#include "hone/media/image_header.h"

namespace hone::media {
namespace {

bool is_whole(const std::string& name) {
  static const std::set<std::string> kWhole{
      "png_whole",       "png_16_bit_grey", "png_16_bit_rgb", "png_16_bit_rgba",  "png_interlaced", "png_behind_end",
      "jpeg_whole",      "jpeg_grey",       "jpeg_cmyk",      "jpeg_progressive", "jpeg_rotated",   "webp_whole",
      "webp_lossless",   "webp_alpha",      "webp_animated",  "gif_whole",        "gif_interlaced", "gif_outside",
      "gif_transparent", "gif_no_trailer",  "bmp_whole",      "bmp_palette",      "bmp_runs_8",     "bmp_runs_4",
      "bmp_masks",       "bmp_from_top",    "bmp_oldest",     "tiff_whole",       "tiff_big_end",   "tiff_tiles",
      "tiff_planes",     "tiff_palette",    "tiff_rotated",   "tiff_lzw",         "tiff_jpeg",      "tiff_deflate",
      "tiff_group4"};
  return kWhole.contains(name);
}

TEST(HostileImages, ArePicturesOrErrors) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_SOURCE_DIR) / "tests/hostile/image")) {
    const auto name = entry.path().filename().string();
    const auto bytes = read_file(entry.path());
    const auto header = read_image_header(bytes);
    const auto image = decode_image(bytes);
    if (is_whole(name)) {
      EXPECT_TRUE(image) << name << ": " << (image ? "" : image.error());
    }
    if (!image) {
      EXPECT_FALSE(image.error().empty()) << name;
    } else {
      ASSERT_TRUE(header) << name;
      EXPECT_EQ(image->size, header->size) << name;
      EXPECT_EQ(image->pixels.size(), static_cast<size_t>(image->size.pixels() * image->channels)) << name;
    }
    ++files;
  }
  EXPECT_GT(files, 180u);
}

// EXIF rotation is ignored, as in ms-swift and LLaMA-Factory.
TEST(HostileImages, ARotatedPhotographStaysAsItIsStored) {
  const auto folder = fs::path(HONE_SOURCE_DIR) / "tests/hostile/image";
  const auto image = decode_image(read_file(folder / "jpeg_rotated"));
  ASSERT_TRUE(image);
  EXPECT_EQ(image->size, (ImageSize{40, 24}));
}

}  // namespace
}  // namespace hone::media
