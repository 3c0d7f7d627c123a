// Every file under tests/hostile/audio is a recording as long as its header says, or an error that says what was found.
#include <gtest/gtest.h>

#include <cmath>

#include "hone/base/file.h"
#include "hone/media/decode_audio.h"

namespace hone::media {
namespace {

constexpr int64_t kRate = 16000;

TEST(HostileAudio, IsARecordingOrAnError) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_SOURCE_DIR) / "tests/hostile/audio")) {
    const auto name = entry.path().filename().string();
    const auto bytes = read_file(entry.path());
    const auto header = read_audio_header(bytes);
    const auto samples = decode_audio(bytes, kRate);
    if (name.ends_with("_whole") || name.ends_with("_stereo")) {
      EXPECT_TRUE(samples) << name << ": " << (samples ? "" : samples.error());
    }
    if (!samples) {
      EXPECT_FALSE(samples.error().empty()) << name;
    } else {
      ASSERT_TRUE(header) << name;
      EXPECT_EQ(static_cast<int64_t>(samples->size()), samples_at(*header, kRate)) << name;
    }
    ++files;
  }
  EXPECT_GE(files, 60u);
}

}  // namespace
}  // namespace hone::media
