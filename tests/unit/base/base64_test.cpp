#include "hone/base/strings/base64.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Base64, WritesTheExamplesOfTheStandard) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(*decode_base64(text), bytes);
  }
}

TEST(Base64, KeepsEveryByte) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(*decode_base64(encode_base64(bytes)), bytes);
}

TEST(Base64, ReadsBothAlphabetsWithoutPadding) {
  EXPECT_EQ(*decode_base64("-_8"), *decode_base64("+/8="));
  EXPECT_EQ(*decode_base64("Zg"), "f");
}

TEST(Base64, RefusesOtherCharacters) {
  for (const char* text : {"Zm 9v", "Zg==Zg==", "Zm9v\n", "Zm9v.", "é"}) EXPECT_FALSE(decode_base64(text)) << text;
}

}  // namespace
}  // namespace hone
