// How large pictures become: figures of qwen_vl_utils, transformers and InternVL's own code.
#include "hone/media/image_processor.h"

#include <gtest/gtest.h>

namespace hone::media {
namespace {

TEST(ImageProcessor, SizesOfQwen) {
  ImageProcessorConfig config;
  EXPECT_EQ(*smart_resize({640, 480}, config), (ImageSize{644, 476}));
  EXPECT_EQ(*smart_resize({1920, 1080}, config), (ImageSize{1932, 1092}));
  EXPECT_EQ(*smart_resize({300, 20}, config), (ImageSize{308, 28}));
  config.max_pixels = 1003520;
  EXPECT_EQ(*smart_resize({1920, 1080}, config), (ImageSize{1316, 728}));
  EXPECT_EQ(*smart_resize({4032, 3024}, config), (ImageSize{1148, 840}));
  EXPECT_FALSE(smart_resize({201, 1}, config));
  ImageProcessorConfig third;
  third.patch_size = 16, third.min_pixels = 4096, third.max_pixels = 16384 * 1024;
  EXPECT_EQ(*smart_resize({1920, 1080}, third), (ImageSize{1920, 1088}));
  EXPECT_EQ(*smart_resize({100, 100}, third), (ImageSize{96, 96}));
  third.rule = ResizeRule::factory, third.min_pixels = 65536;
  EXPECT_EQ(*smart_resize({100, 100}, third), (ImageSize{256, 256}));
}

TEST(ImageProcessor, TilesOfInternVL) {
  const TileConfig config{448, 12};
  auto tiles = [&](int64_t width, int64_t height) {
    ImageProcessorConfig processor;
    processor.tiles = config;
    processor.temporal_patch_size = 1;
    return image_geometry({width, height}, processor)->frames;
  };
  EXPECT_EQ(tiles(448, 448), 1);
  EXPECT_EQ(tiles(800, 600), 13);
  EXPECT_EQ(tiles(1920, 1080), 9);
  EXPECT_EQ(tiles(600, 1200), 3);
  EXPECT_EQ(tiles(1000, 1000), 10);
  EXPECT_EQ(choose_tiles({800, 600}, config), (ImageSize{4, 3}));
  EXPECT_EQ(choose_tiles({800, 600}, {448, 1}), (ImageSize{1, 1}));
}

}  // namespace
}  // namespace hone::media
