#include "hone/engine/text_stream.h"

#include <gtest/gtest.h>

#include "engine/fixture.h"

namespace hone::engine {
namespace {

// The text a stream gives for the bytes of `input`, piece by piece.
std::vector<std::string> pieces(TextStream& stream, std::string_view input) {
  std::vector<std::string> result;
  for (char byte : input) result.push_back(stream.push(static_cast<unsigned char>(byte)));
  result.push_back(stream.finish());
  return result;
}

std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "")); }

TEST(TextStream, GivesWholeCharactersOnly) {
  auto tokenizer = byte_tokenizer();
  TextStream stream(*tokenizer, {});
  auto parts = pieces(stream, "aé中🙂");
  for (const auto& part : parts)
    EXPECT_TRUE(part.empty() || part == "a" || part == "é" || part == "中" || part == "🙂") << part;
  EXPECT_EQ(joined(parts), "aé中🙂");
}

TEST(TextStream, EndsBeforeAStopStringAndNeverShowsPartOfIt) {
  auto tokenizer = byte_tokenizer();
  TextStream stream(*tokenizer, {"STOP", "##"});
  std::string shown;
  for (char byte : std::string_view("so STO STOP more")) {
    shown += stream.push(static_cast<unsigned char>(byte));
    EXPECT_FALSE(shown.ends_with("STO") && shown.size() > 6);
    if (stream.stopped()) break;
  }
  EXPECT_EQ(shown + stream.finish(), "so STO ");
  EXPECT_EQ(stream.stop_string(), "STOP");
}

TEST(TextStream, TheEarliestStopStringWins) {
  auto tokenizer = byte_tokenizer();
  TextStream stream(*tokenizer, {"cd", "bc"});
  EXPECT_EQ(joined(pieces(stream, "abcd")), "a");
  EXPECT_EQ(stream.stop_string(), "bc");
}

TEST(TextStream, HeldTextComesOutAtTheEnd) {
  auto tokenizer = byte_tokenizer();
  TextStream stream(*tokenizer, {"END"});
  EXPECT_EQ(joined(pieces(stream, "the EN")), "the EN");
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStream, IncludesTheStopStringWhenAsked) {
  auto tokenizer = byte_tokenizer();
  TextStream stream(*tokenizer, {"!"}, true);
  EXPECT_EQ(joined(pieces(stream, "hi!there")), "hi!");
}

}  // namespace
}  // namespace hone::engine
