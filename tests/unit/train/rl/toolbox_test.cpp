#include "hone/train/rl/tools/toolbox.h"

#include <gtest/gtest.h>

namespace hone::train::rl {
namespace {

std::vector<std::string> some_images(size_t count) { return std::vector<std::string>(count, "data:image/png;base64,AA=="); }

ToolResult result_of(const std::string& text, size_t images, int64_t limit = 8192, bool shows_images = true) {
  ToolConfig config;
  config.response_limit = limit;
  config.shows_images = shows_images;
  return read_output({text, some_images(images)}, config);
}

void expect_result(const ToolResult& result, const std::string& text, size_t images) {
  EXPECT_EQ(result.text, text);
  EXPECT_EQ(result.images.size(), images);
  EXPECT_FALSE(result.failed);
}

TEST(Toolbox, AResultHasATagForEachOfItsImages) {
  expect_result(result_of("a <image> b", 1), "a <image> b", 1);
  expect_result(result_of("a <image> b <image>", 1), "a <image> b [image]", 1);
  expect_result(result_of("a <image>", 3), "<image><image>a <image>", 3);
  expect_result(result_of("<image> of a page", 0), "<image> of a page", 0);
}

TEST(Toolbox, ATagWithoutItsImageIsText) {
  std::string nine;
  for (int i = 0; i < 9; ++i) nine += "<image>";
  expect_result(result_of(nine, 9), nine.substr(0, 8 * 7) + "[image]", 8);
  expect_result(result_of("", 9), nine.substr(0, 8 * 7), 8);
  expect_result(result_of("one <image> two <image>", 2, 15), "one <image> two […]", 1);
  expect_result(result_of("one <image> two <image>", 2, 18), "one <image> two <i […]", 1);
  expect_result(result_of("one <image>", 2, 8192, false), "[image]one [image]", 0);
}

}  // namespace
}  // namespace hone::train::rl
