#include "hone/base/strings/replace_all.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(ReplaceAll, ReplacesEveryOccurrence) {
  EXPECT_EQ(replace_all("a.b.c", ".", "___"), "a___b___c");
  EXPECT_EQ(replace_all("{{NAME}}{{NAME}}", "{{NAME}}", ""), "");
  EXPECT_EQ(replace_all("nothing here", "x", "y"), "nothing here");
  EXPECT_EQ(replace_all("", "x", "y"), "");
}

TEST(ReplaceAll, DoesNotSearchWhatItHasPut) {
  EXPECT_EQ(replace_all("&amp", "&", "&amp;"), "&amp;amp");
  EXPECT_EQ(replace_all("aaa", "aa", "a"), "aa");
}

TEST(ReplaceAll, AnEmptyTextOccursNowhere) { EXPECT_EQ(replace_all("text", "", "x"), "text"); }

}  // namespace
}  // namespace hone
