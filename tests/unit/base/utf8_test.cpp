#include "hone/base/strings/utf8.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

constexpr std::string_view kText = "aé你😀";  // characters of 1, 2, 3 and 4 bytes

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(count_characters(""), 0u);
  EXPECT_EQ(count_characters(kText), 4u);
  EXPECT_EQ(count_characters(kText.substr(2)), 2u) << "the first byte ends a character that began before";
}

TEST(Utf8, FindsTheBeginningOfACharacter) {
  const size_t begins[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6};
  for (size_t at = 0; at < kText.size(); ++at) EXPECT_EQ(character_begin(kText, at), begins[at]) << at;
  EXPECT_EQ(character_begin(kText, kText.size()), kText.size());
  EXPECT_EQ(character_begin("\x80\x80", 1), 0u);
  EXPECT_EQ(character_begin("", 0), 0u);
}

TEST(Utf8, WritesCodePoints) {
  std::string text;
  for (uint32_t code_point : {0x61, 0xE9, 0x4F60, 0x1F600}) append_utf8(text, code_point);
  EXPECT_EQ(text, kText);
  std::string bounds;
  for (uint32_t code_point : {0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF}) append_utf8(bounds, code_point);
  EXPECT_EQ(bounds, "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
}

}  // namespace
}  // namespace hone
