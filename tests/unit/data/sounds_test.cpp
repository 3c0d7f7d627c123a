#include "hone/data/sounds/sounds.h"

#include <gtest/gtest.h>

namespace hone::data {
namespace {

TEST(Sounds, TokensOfSamples) {
  SoundConfig second, third;
  third.rule = SoundRule::qwen3_omni;
  struct {
    int64_t samples, second, third;
  } cases[] = {{1600, 2, 2}, {16000, 25, 13}, {80000, 125, 65}, {480000, 750, 390}, {320, 0, 1}, {160, 0, 0}, {100, 0, 0}};
  for (const auto& one : cases) {
    EXPECT_EQ(sound_size(one.samples, second).tokens, one.second) << one.samples;
    EXPECT_EQ(sound_size(one.samples, third).tokens, one.third) << one.samples;
  }
}

TEST(Sounds, FiveMinutesAreTheMostThatQwen25OmniHears) {
  const auto size = sound_size(400 * 16000, {});
  EXPECT_EQ(size.samples, 300 * 16000);
  EXPECT_EQ(size.frames, 30000);
}

TEST(Sounds, MarksTakeThePlaceOfTags) {
  std::vector<Message> messages{{"user", "a <audio> b", {}, {}, nullptr}};
  Sound sound;
  sound.tokens = 7;
  mark_sounds(messages, {sound}, TagRule::add_missing, "<audio>");
  const auto pieces = split_at_marks(messages[0].content);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].text, "a ");
  ASSERT_EQ(pieces[0].runs.size(), 1u);
  EXPECT_EQ(pieces[0].runs[0].tokens, 7);
  EXPECT_EQ(pieces[0].runs[0].kind, Placeholder::sound);
  EXPECT_EQ(pieces[1].text, " b");
}

}  // namespace
}  // namespace hone::data
