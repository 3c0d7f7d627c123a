#include <gtest/gtest.h>

#include <numeric>

#include "hone/base/error.h"
#include "hone/base/progress.h"
#include "hone/base/rng.h"
#include "hone/base/terminal.h"
#include "hone/base/thread_pool.h"

namespace hone {
namespace {

TEST(Rng, SeekContinuesTheStream) {
  Rng one(7, 3), two(7, 3);
  for (int i = 0; i < 100; ++i) one.next();
  two.seek(one.position());
  EXPECT_EQ(one.next(), two.next());
  EXPECT_NE(Rng(7, 3).next(), Rng(7, 4).next());
  EXPECT_NE(Rng(7, 3).next(), Rng(8, 3).next());
}

TEST(Rng, ShuffleIsAPermutationAndUniform) {
  std::vector<int> firsts(5);
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    std::vector<int> items(5);
    std::iota(items.begin(), items.end(), 0);
    Rng(seed).shuffle(items);
    ++firsts[static_cast<size_t>(items[0])];
    std::sort(items.begin(), items.end());
    EXPECT_EQ(items, (std::vector<int>{0, 1, 2, 3, 4}));
  }
  for (int count : firsts) EXPECT_NEAR(count, 1000, 150);
}

TEST(ThreadPool, CarriesResultsAndExceptions) {
  ThreadPool pool(3);
  std::vector<std::future<int>> futures;
  for (int i = 0; i < 50; ++i) futures.push_back(pool.submit([i] { return i * i; }));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(futures[static_cast<size_t>(i)].get(), i * i);
  auto failing = pool.submit([]() -> int { throw UserError(ExitCode::bad_data, "x"); });
  EXPECT_THROW(failing.get(), UserError);
}

TEST(Result, HoldsAValueOrSaysWhy) {
  Result<int> good = 3;
  Result<int> bad = error("found {}", 4);
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(bad.error(), "found 4");
  EXPECT_THROW(std::move(bad).or_throw(ExitCode::bad_data, "file"), UserError);
}

TEST(Terminal, MeasuresAndCutsCells) {
  EXPECT_EQ(terminal::display_width("abc"), 3u);
  EXPECT_EQ(terminal::display_width("你好"), 4u);
  EXPECT_EQ(terminal::display_width("\x1b[32mok\x1b[0m"), 2u);
  EXPECT_EQ(terminal::truncate("你好世界", 5), "你好…");
  EXPECT_EQ(terminal::truncate("short", 10), "short");
}

TEST(Terminal, ReadsItsAttributesOutOfWhatWasTyped) {
  EXPECT_EQ(terminal::parse_device_attributes("\x1b[?62;4;22c"), (std::vector<int>{62, 4, 22}));
  EXPECT_EQ(terminal::parse_device_attributes("ls\x1b[?1u\x1b[?6c"), (std::vector<int>{6}));
  for (const char* none : {"", "\x1b[?", "\x1b[?62;4", "\x1b[?62;;4c", "\x1b[?99999999999c", "\x1b[>0;1c", "\x1b[?62;4;\x1b"})
    EXPECT_TRUE(terminal::parse_device_attributes(none).empty()) << none;
}

TEST(Format, ReadsLikeAPersonWouldWrite) {
  EXPECT_EQ(format_duration(3725), "1:02:05");
  EXPECT_EQ(format_duration(65), "01:05");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_count(12345), "12.3k");
}

}  // namespace
}  // namespace hone
