// Thumbnails of images that are much longer in one direction than in the other.
#include "hone/cli/commands/inspect/thumbnail.h"

#include <gtest/gtest.h>

namespace hone::cli {
namespace {

media::Image grey(media::ImageSize size) {
  return {.size = size,
          .channels = 3,
          .from_palette = false,
          .pixels = std::vector<uint8_t>(static_cast<size_t>(3 * size.pixels()), 128)};
}

// Cells of 10 x 20 pixels are assumed unless stdout is a terminal that says otherwise.
TEST(Thumbnail, FitsIntoItsCells) {
  const auto shown = [](media::ImageSize size) { return thumbnail(grey(size), "", TerminalPictures::sixel, 40, 12); };
  for (const auto& [size, raster] : std::vector<std::pair<media::ImageSize, std::string>>{
           {{1, 65535}, "\"1;1;1;240#"}, {{65535, 1}, "\"1;1;400;1#"}, {{400, 200}, "\"1;1;400;200#"}})
    EXPECT_NE(shown(size).find(raster), std::string::npos) << raster << " in " << shown(size).substr(0, 40);
}

}  // namespace
}  // namespace hone::cli
