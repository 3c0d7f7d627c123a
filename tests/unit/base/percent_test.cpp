#include "hone/base/strings/percent.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Percent, KeepsWhatUrlsLeaveUnreserved) {
  EXPECT_EQ(percent_encoded("Az09-._~"), "Az09-._~");
  EXPECT_EQ(percent_encoded("org/name v1+é"), "org%2Fname%20v1%2B%C3%A9");
}

TEST(Percent, KeepsCharactersThatTheCallerNames) { EXPECT_EQ(percent_encoded("a/b c", "/"), "a/b%20c"); }

TEST(Percent, DecodesWhatItEncoded) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(percent_decoded(percent_encoded(bytes)), bytes);
  EXPECT_EQ(percent_decoded("org%2fname"), "org/name");
}

TEST(Percent, RefusesAPercentWithoutTwoDigits) {
  for (const char* text : {"%", "a%2", "%2G", "%-1", "% 1", "%%41"}) EXPECT_FALSE(percent_decoded(text)) << text;
}

}  // namespace
}  // namespace hone
