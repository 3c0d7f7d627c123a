#include "hone/tinker/state/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/tinker/state/round_journal.h"
#include "train/scratch_folder.h"

namespace hone::tinker {
namespace {

int64_t count_notes(Database& database) {
  auto row = database.prepare("SELECT COUNT(*) FROM notes");
  return row.step() ? row.integer(0) : -1;
}

void write_note(GroupCommit& commits, int64_t value, bool fails = false) {
  commits.run([&](Database& database) {
    database.prepare("INSERT INTO notes(value) VALUES(?)").bind(value).run();
    if (fails) throw UserError(ExitCode::failure, "on purpose");
  });
}

// A statement serves again as if it were new: without the values and rows of its last use, and beside another of the same SQL.
TEST(Database, StatementsServeAgain) {
  const train::ScratchFolder folder;
  Database database(folder.path() / "notes.sqlite");
  database.execute("CREATE TABLE notes(value INTEGER)");
  const std::string select = "SELECT value FROM notes WHERE value > ? ORDER BY value";
  for (int64_t value : {1, 2, 3}) database.prepare("INSERT INTO notes(value) VALUES(?)").bind(value).run();
  for (int round = 0; round < 2; ++round) {
    auto all = database.prepare(select), some = database.prepare(select);
    ASSERT_TRUE(all.bind(int64_t{0}).step());
    ASSERT_TRUE(some.bind(int64_t{2}).step());
    EXPECT_EQ(all.integer(0), 1);
    EXPECT_EQ(some.integer(0), 3);
  }
  EXPECT_FALSE(database.prepare(select).step()) << "a value that is not bound is null";
  EXPECT_THROW(database.prepare("SELECT nothing FROM nowhere"), UserError);
}

// Threads that write at the same time: each returns when its own row is there for others to read, and one that fails leaves none.
TEST(GroupCommit, WritesOfSeveralThreadsShareCommitsAndNothingElse) {
  const train::ScratchFolder folder;
  Database database(folder.path() / "notes.sqlite"), reader(folder.path() / "notes.sqlite");
  database.execute("CREATE TABLE notes(value INTEGER PRIMARY KEY)");
  GroupCommit commits(database);
  constexpr int64_t kThreads = 8, kWrites = 20;
  std::atomic<int64_t> failed = 0;
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < kWrites; ++i) try {
          write_note(commits, thread * kWrites + i, i % 5 == 4);
        } catch (const UserError&) {
          ++failed;
        }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, kThreads * kWrites / 5);
  EXPECT_EQ(count_notes(reader), kThreads * kWrites * 4 / 5);
  EXPECT_THROW(write_note(commits, 0), UserError) << "the row is there already";
  write_note(commits, 1'000);
  EXPECT_EQ(count_notes(reader), kThreads * kWrites * 4 / 5 + 1);
}

TEST(Store, RequestsOfSeveralRunsFinishTogether) {
  const train::ScratchFolder folder;
  {
    Store store(folder.path() / "state.sqlite");
    for (const char* id : {"s:train:0", "s:train:1"}) {
      store.add_run({.id = id, .session = "s", .owner = "alice", .config = {}, .user_metadata = {}, .snapshot = {}},
                    {.done = true});
      EXPECT_EQ(store.add_request(id, {.seq = 1, .kind = "optim_step", .body = "kept"}), Store::Added::fresh);
      EXPECT_EQ(store.add_request(id, {.seq = 1, .kind = "optim_step", .body = "kept"}), Store::Added::repeated);
      EXPECT_EQ(store.add_request(id, {.seq = 1, .kind = "optim_step", .body = "another"}), Store::Added::differs);
    }
    EXPECT_EQ(store.pending_requests().size(), 2u);
    EXPECT_EQ(store.pending("alice").requests, 2);
    EXPECT_EQ(store.pending("alice").bytes, 8);
    EXPECT_EQ(store.pending("bob").requests, 0);
    store.finish_requests(
        {{"s:train:0", {.seq = 1, .result = "first"}}, {"s:train:1", {.seq = 1, .failed = true, .result = "second"}}});
  }
  Store store(folder.path() / "state.sqlite");  // as another process finds it
  EXPECT_TRUE(store.pending_requests().empty());
  EXPECT_EQ(store.result("s:train:0", "alice", 1)->result, "first");
  EXPECT_TRUE(store.result("s:train:1", "alice", 1)->failed);
  EXPECT_EQ(store.run("s:train:1", "alice")->executed, 1);
  EXPECT_EQ(store.requests_behind("s:train:0", 0).front().body, "kept");
  EXPECT_EQ(store.requests_behind("s:train:1", 0).front().body, "") << "a failed request is not repeated";
}

TEST(Store, AnUnloadedRunLeavesNothing) {
  const train::ScratchFolder folder;
  Store store(folder.path() / "state.sqlite");
  store.add_run({.id = "s:train:0", .session = "s", .owner = "alice", .config = {}, .user_metadata = {}, .snapshot = {}},
                {.done = true});
  store.set_snapshot("s:train:0", 0, "/runs/one/checkpoint-0");
  store.add_request("s:train:0", {.seq = 1, .kind = "forward_backward", .body = "data"});
  store.finish_requests({{"s:train:0", {.seq = 1, .kind = "forward_backward", .result = "done"}}});
  EXPECT_TRUE(store.folders().contains("/runs/one/checkpoint-0"));
  store.set_unloaded("s:train:0");
  EXPECT_FALSE(store.folders().contains("/runs/one/checkpoint-0")) << "a restarted server removes it";
  EXPECT_EQ(store.drop_snapshot("s:train:0"), "/runs/one/checkpoint-0");
  EXPECT_EQ(store.requests_behind("s:train:0", 0).front().body, "");
  EXPECT_EQ(store.result("s:train:0", "alice", 1)->result, "done");
}

TEST(Store, UnnamedWeightsExpire) {
  const train::ScratchFolder folder;
  Store store(folder.path() / "state.sqlite");
  for (const char* id : {"s:sample:0", "s:sample:1"})
    store.add_sampler({.id = id, .session = "s", .owner = "alice", .model_path = {}, .folder = std::string("/") + id});
  store.add_sampler({.id = "s:sample:2", .session = "s", .owner = "alice", .model_path = "tinker://s/weights/a", .folder = {}});
  EXPECT_TRUE(store.drop_samplers_older_than(60).empty());
  EXPECT_EQ(store.drop_samplers_older_than(-60).size(), 2u);
  EXPECT_TRUE(store.sampler("s:sample:2", "alice"));
  EXPECT_FALSE(store.sampler("s:sample:0", "alice"));
}

TEST(RoundJournal, EntriesOfOtherTypesAreSkipped) {
  const train::ScratchFolder folder;
  const auto file = folder.path() / "round.json";
  append_line(file, R"([1, {}, {"run": 1, "seq": 2, "crashes": 0}, {"run": "s", "seq": "2", "crashes": 0},
                        {"run": "s", "seq": 2, "crashes": null}, {"run": "s", "seq": 3, "crashes": 1}])");
  const RoundJournal journal(file);
  EXPECT_EQ(journal.crashes({"s", 2}), 0);
  EXPECT_EQ(journal.crashes({"s", 3}), 2);
}

}  // namespace
}  // namespace hone::tinker
