#include "hone/base/strings/edit_distance.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Spelling, SwapsCostAsMuchAsOtherMistakes) {
  EXPECT_EQ(edit_distance("learning_rat", "learning_rate"), 1u);
  EXPECT_EQ(edit_distance("leanring", "learning"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
}

TEST(Spelling, NearestWordIsOneThatAMisspellingCanMean) {
  const std::string_view commands[] = {"sft", "pt", "infer", "export"};
  EXPECT_EQ(nearest_word("stf", commands), "sft");
  EXPECT_EQ(nearest_word("exprot", commands), "export");
  EXPECT_EQ(nearest_word("uv", commands), "");
  EXPECT_EQ(nearest_word("deploy", commands), "");
}

}  // namespace
}  // namespace hone
