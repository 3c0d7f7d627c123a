#include "hone/tinker/api/futures.h"

#include <gtest/gtest.h>

#include <thread>

namespace hone::tinker {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;
constexpr size_t kMost = 10;

struct Samples : testing::Test {
  asio::io_context io;
  Futures futures{io};

  void add(const std::string& id) { EXPECT_EQ(futures.add_sample(id, "alice", kMost), true) << id; }
  Ids drop_abandoned(std::chrono::duration<double> silence) {
    Ids ids;
    futures.drop_abandoned(silence, [&](const std::string& id) { ids.push_back(id); });
    return ids;
  }
  bool is_known(const std::string& id) { return futures.sample(id, "alice").has_value(); }
};

TEST_F(Samples, ACancelledOneHasFailed) {
  add("s:sample:0:0");
  EXPECT_FALSE(futures.cancel_sample("s:sample:0:0", "bob"));
  EXPECT_FALSE(futures.cancel_sample("s:sample:0:1", "alice"));
  EXPECT_TRUE(futures.cancel_sample("s:sample:0:0", "alice"));
  EXPECT_FALSE(futures.cancel_sample("s:sample:0:0", "alice")) << "it is done";
  futures.finish_sample("s:sample:0:0", {.failed = false, .body = "a result that came too late"});
  const auto sample = futures.sample("s:sample:0:0", "alice");
  EXPECT_TRUE(sample->done && sample->outcome.failed);
  EXPECT_NE(sample->outcome.body.find("cancelled by its client"), std::string::npos);
  EXPECT_EQ(futures.counts().samples, 0u);
  EXPECT_EQ(futures.counts().cancelled, 1);
  EXPECT_EQ(futures.add_sample("s:sample:0:0", "alice", kMost), false) << "a repeated request does not begin again";
}

TEST_F(Samples, ASessionEndsWithItsUnfinishedOnes) {
  for (const char* id : {"s:sample:0:0", "s:sample:0:1", "s:sample:1:0", "s2:sample:0:0", "r:sample:0:0"}) add(id);
  futures.finish_sample("s:sample:0:1", {.failed = false, .body = "result"});
  EXPECT_EQ(futures.cancel_session("s"), (Ids{"s:sample:0:0", "s:sample:1:0"}));
  EXPECT_EQ(futures.sample("s:sample:0:1", "alice")->outcome.body, "result");
  EXPECT_FALSE(futures.sample("s2:sample:0:0", "alice")->done);
  EXPECT_EQ(futures.counts().samples, 2u);
}

// Any request of the session counts; a result that is there stays.
TEST_F(Samples, ThoseOfASilentSessionAreDropped) {
  for (const char* id : {"silent:sample:0:0", "silent:sample:0:1", "beats:sample:0:0", "polls:sample:0:0", "polls:sample:0:1"})
    add(id);
  add(kDirectSample + std::string("one"));
  futures.finish_sample("silent:sample:0:1", {.failed = false, .body = "result"});
  EXPECT_TRUE(drop_abandoned(60s).empty());
  std::this_thread::sleep_for(50ms);
  futures.note_session("beats");
  futures.note_poll("polls:sample:0:1", "alice");
  futures.note_poll("silent:sample:0:0", "bob");
  futures.note_session("unknown");
  EXPECT_EQ(drop_abandoned(40ms), (Ids{kDirectSample + std::string("one"), "silent:sample:0:0"}));
  EXPECT_FALSE(is_known("silent:sample:0:0")) << "as after a restart";
  EXPECT_TRUE(is_known("silent:sample:0:1"));
  EXPECT_TRUE(is_known("polls:sample:0:0"));
  EXPECT_EQ(futures.counts().samples, 3u);
  add("silent:sample:0:0");  // the client is back, and sends it again
  EXPECT_TRUE(drop_abandoned(40ms).empty());
}

TEST_F(Samples, ThoseWhoseClientLeftAreDroppedUnlessItPollsAgain) {
  for (const char* id : {"s:sample:0:0", "s:sample:0:1", "s:sample:0:2"}) add(id);
  futures.note_disconnect("s:sample:0:0", "alice");
  futures.note_disconnect("s:sample:0:1", "alice");
  futures.note_disconnect("s:sample:0:2", "bob");
  std::this_thread::sleep_for(50ms);
  futures.note_session("s");  // its other samples are waited for
  futures.note_poll("s:sample:0:1", "alice");
  EXPECT_EQ(drop_abandoned(40ms), Ids{"s:sample:0:0"});
}

}  // namespace
}  // namespace hone::tinker
