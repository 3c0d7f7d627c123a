#include "hone/base/strings/hex.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Hex, WritesTwoDigitsForEachByte) {
  EXPECT_EQ(hex_digits(""), "");
  EXPECT_EQ(hex_digits(std::string_view("\x00\x09\x7f\xab\xff", 5)), "00097fabff");
}

TEST(Hex, ReadsDigitsOfBothCases) {
  for (int value = 0; value < 16; ++value) {
    EXPECT_EQ(hex_value("0123456789abcdef"[value]), value);
    EXPECT_EQ(hex_value("0123456789ABCDEF"[value]), value);
  }
  for (char c : {'g', 'G', '/', ':', '@', '`', ' ', '\0'}) EXPECT_EQ(hex_value(c), -1) << c;
}

}  // namespace
}  // namespace hone
