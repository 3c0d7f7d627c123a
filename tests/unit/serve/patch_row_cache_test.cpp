#include "hone/serve/chat/patch_row_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "data/temporary_folder.h"
#include "hone/data/batches/image_batch.h"

namespace hone::serve {
namespace {

constexpr int kSide = 28;

// A BMP file of one colour.
std::string bitmap(char shade) {
  std::string bytes(54 + kSide * kSide * 3, shade);
  const auto put = [&](size_t at, uint32_t value, size_t count) {
    for (size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  };
  std::fill(bytes.begin(), bytes.begin() + 54, '\0');
  bytes.replace(0, 2, "BM");
  put(2, static_cast<uint32_t>(bytes.size()), 4), put(10, 54, 4), put(14, 40, 4), put(18, kSide, 4), put(22, kSide, 4);
  put(26, 1, 2), put(28, 24, 2), put(34, kSide * kSide * 3, 4);
  return bytes;
}

// Pictures whose sources are opened through `opened`.
class OpenedPictures {
 public:
  OpenedPictures() {
    folder_.write("red", bitmap(40));
    folder_.write("blue", bitmap(90));
    folder_.write("bad", "BM");
    config_->sources.fetch = [this](const std::string& url) -> Result<fs::path> {
      ++opened;
      return fs::path(folder_ / url.substr(std::string("http://").size()));
    };
  }

  std::vector<data::Picture> picture(const std::string& name) const {
    return {
        {.source = "http://" + name, .geometry = *media::image_geometry({kSide, kSide}, config_->processor), .config = config_}};
  }
  std::vector<float> rows() const { return std::vector<float>(data::patch_row_values(picture("red"))); }

  std::atomic<int> opened = 0;

 private:
  data::TemporaryFolder folder_;
  std::shared_ptr<data::PictureConfig> config_ = std::make_shared<data::PictureConfig>();
};

TEST(PatchRowCache, EqualMediaAreDecodedOnce) {
  OpenedPictures pictures;
  PatchRowCache cache(1 << 20);
  auto expected = pictures.rows();
  ASSERT_FALSE(data::fill_patch_rows(pictures.picture("red"), expected));
  pictures.opened = 0;
  std::vector<std::vector<float>> rows(8, pictures.rows());
  {
    std::vector<std::jthread> threads;
    for (auto& own : rows) threads.emplace_back([&] { EXPECT_FALSE(cache.fill(pictures.picture("red"), own)); });
  }
  EXPECT_EQ(pictures.opened, 1);
  for (const auto& own : rows) EXPECT_EQ(own, expected);
  auto other = pictures.rows();
  EXPECT_FALSE(cache.fill(pictures.picture("blue"), other));
  EXPECT_NE(other, expected);
}

TEST(PatchRowCache, TheOneUsedLongestAgoLeavesFirst) {
  OpenedPictures pictures;
  auto rows = pictures.rows();
  PatchRowCache cache(rows.size() * sizeof(float));  // room for one
  for (const char* name : {"red", "red", "blue", "blue", "red"}) EXPECT_FALSE(cache.fill(pictures.picture(name), rows));
  EXPECT_EQ(pictures.opened, 3);
  PatchRowCache nothing(0);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(nothing.fill(pictures.picture("red"), rows));
  EXPECT_EQ(pictures.opened, 5);
}

TEST(PatchRowCache, FailuresAreNotKept) {
  OpenedPictures pictures;
  PatchRowCache cache(1 << 20);
  auto rows = pictures.rows();
  for (int i = 0; i < 2; ++i) {
    const auto problem = cache.fill(pictures.picture("bad"), rows);
    ASSERT_TRUE(problem);
    EXPECT_NE(problem->message.find("http://bad"), std::string::npos) << problem->message;
  }
  EXPECT_EQ(pictures.opened, 2);
}

std::vector<data::Picture> prompt_of(const OpenedPictures& pictures, std::initializer_list<const char*> names) {
  std::vector<data::Picture> all;
  for (const char* name : names) {
    all.push_back(pictures.picture(name).front());
    all.back().first = (all.size() - 1) * static_cast<size_t>(all.back().geometry.tokens);
  }
  return all;
}

TEST(PromptBatch, DecodesEqualImagesOnceAndStopsAtTheFirstProblem) {
  OpenedPictures pictures;
  const auto ids = std::vector<text::TokenId>(64);
  const auto batch = data::prompt_batch(ids, prompt_of(pictures, {"red", "blue", "red"}));
  ASSERT_TRUE(batch) << batch.error();
  EXPECT_EQ(pictures.opened, 2);
  const auto each = batch->images.patches_pr.chunk(3);
  EXPECT_TRUE(each[0].equal(each[2]));
  EXPECT_FALSE(each[0].equal(each[1]));
  pictures.opened = 0;
  EXPECT_FALSE(data::prompt_batch(ids, prompt_of(pictures, {"red", "bad", "blue"})));
  EXPECT_EQ(pictures.opened, 2);
}

TEST(PromptBatch, IsCancelledBetweenImages) {
  OpenedPictures pictures;
  const auto is_cancelled = [&] { return pictures.opened == 1; };
  const auto batch = data::prompt_batch(std::vector<text::TokenId>(64), prompt_of(pictures, {"red", "blue"}), {},
                                        {.is_cancelled = is_cancelled});
  EXPECT_FALSE(batch);
  EXPECT_EQ(pictures.opened, 1);
}

}  // namespace
}  // namespace hone::serve
