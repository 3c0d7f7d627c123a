// Every file under tests/hostile/video is a video whose frames are there, or an error that says what was found.
#include "hone/media/decode_video.h"

#include <gtest/gtest.h>

#include <map>

#include "hone/base/file.h"

namespace hone::media {
namespace {

const fs::path kFolder = fs::path(HONE_SOURCE_DIR) / "tests/hostile/video";

std::vector<Image> frames_of(const std::string& bytes, const std::vector<int64_t>& numbers) {
  std::vector<Image> frames;
  const auto problem = decode_frames(bytes, numbers, [&](const Image& frame) { frames.push_back(frame); });
  EXPECT_FALSE(problem) << (problem ? problem->message : "");
  return frames;
}

std::vector<int64_t> all_numbers(int64_t count) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Videos, HeadersSayWhatIsThere) {
  const std::map<std::string, VideoHeader> whole{
      {"mp4_whole", {{48, 32}, 12, 12, 8, 1.5}},    {"mp4_index_last", {{48, 32}, 12, 12, 8, 1.5}},
      {"mp4_fragments", {{48, 32}, 12, 0, 8, 1.5}}, {"webm_vp8", {{48, 32}, 12, 0, 8, 0}},
      {"matroska_mpeg4", {{48, 32}, 12, 0, 8, 0}},  {"avi_mpeg4", {{48, 32}, 12, 12, 8, 1.5}},
      {"avi_mjpeg", {{48, 32}, 12, 12, 8, 1.5}},    {"mpegps", {{48, 32}, 12, 0, 25, 0}},
      {"mp4_one_frame", {{32, 32}, 1, 1, 8, 0.125}}};
  for (const auto& [name, expected] : whole) {
    const auto bytes = read_file(kFolder / name);
    const auto header = read_video_header(bytes);
    ASSERT_TRUE(header) << name << ": " << header.error();
    EXPECT_EQ(header->size, expected.size) << name;
    EXPECT_EQ(header->frames, expected.frames) << name;
    EXPECT_NEAR(header->fps, expected.fps, 1e-6) << name;
    if (expected.stated_frames > 0) {
      EXPECT_EQ(header->stated_frames, expected.stated_frames) << name;
    }
    EXPECT_EQ(frames_of(bytes, all_numbers(header->frames)).size(), static_cast<size_t>(header->frames)) << name;
  }
}

// Frames by seeking are those of reading everything from the start, in containers with and without an index and times.
TEST(Videos, FramesAreTheSameFromAnywhere) {
  for (const std::string name :
       {"mp4_whole", "mp4_fragments", "webm_vp8", "matroska_mpeg4", "avi_mpeg4", "avi_mjpeg", "mpegts_mpeg2", "mpegps"}) {
    const auto bytes = read_file(kFolder / name);
    const auto header = read_video_header(bytes);
    ASSERT_TRUE(header) << name << ": " << header.error();
    const auto all = frames_of(bytes, all_numbers(header->frames));
    ASSERT_EQ(all.size(), static_cast<size_t>(header->frames)) << name;
    for (const std::vector<int64_t>& numbers : {std::vector<int64_t>{9}, {2, 2, 10}, {0, 5, 11}}) {
      const auto some = frames_of(bytes, numbers);
      ASSERT_EQ(some.size(), numbers.size()) << name;
      for (size_t i = 0; i < numbers.size(); ++i)
        EXPECT_EQ(some[i].pixels, all[static_cast<size_t>(numbers[i])].pixels) << name << " frame " << numbers[i];
    }
    EXPECT_NE(all.front().pixels, all.back().pixels) << name;
  }
}

TEST(Videos, HostileFilesAreErrors) {
  const std::map<std::string, std::string> refused{{"other_empty", "0 bytes"},
                                                   {"other_text", "not a video"},
                                                   {"other_playlist", "not a video"},
                                                   {"other_concat", "not a video"},
                                                   {"other_png", "not a video"},
                                                   {"other_page", "not a video"},
                                                   {"other_gif", "not a video"},
                                                   {"other_sound_only", "without moving pictures"},
                                                   {"mp4_cut_20", ""},
                                                   {"mp4_cut_header", ""},
                                                   {"mp4_cut_frames", "truncated"},
                                                   {"mp4_cut_last_byte", "truncated"},
                                                   {"mp4_cut_index", "without its index"},
                                                   {"webm_cut", "truncated"},
                                                   {"avi_cut", "truncated"},
                                                   {"mp4_far_chunk", "truncated"}};
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const auto name = entry.path().filename().string();
    const auto bytes = read_file(entry.path());
    const auto header = read_video_header(bytes);
    if (const auto known = refused.find(name); known != refused.end()) {
      ASSERT_FALSE(header) << name;
      EXPECT_NE(header.error().find(known->second), std::string::npos) << name << ": " << header.error();
    }
    if (header) {
      const auto problem = decode_frames(bytes, std::vector<int64_t>{0, header->frames - 1}, [&](const Image& frame) {
        EXPECT_EQ(frame.size, header->size) << name;
        EXPECT_EQ(frame.pixels.size(), static_cast<size_t>(3 * frame.size.pixels())) << name;
      });
      EXPECT_TRUE(!problem || !problem->message.empty()) << name;
    }
    ++files;
  }
  EXPECT_GT(files, 30u);
}

TEST(Videos, FramesThatAreNotThereAreErrors) {
  const auto bytes = read_file(kFolder / "mp4_whole");
  const auto ignore = [](const Image&) {};
  EXPECT_TRUE(decode_frames(bytes, std::vector<int64_t>{12}, ignore));
  EXPECT_TRUE(decode_frames(bytes, std::vector<int64_t>{-1}, ignore));
  EXPECT_TRUE(decode_frames(bytes, std::vector<int64_t>{5, 3}, ignore));
}

}  // namespace
}  // namespace hone::media
