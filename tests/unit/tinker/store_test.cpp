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
  EXPECT_EQ(store.requests_after("s:train:0", 0).front().body, "kept");
  EXPECT_EQ(store.requests_after("s:train:1", 0).front().body, "") << "a failed request is not repeated";
}

TEST(Store, AnUnloadedRunLeavesNothing) {
  const train::ScratchFolder folder;
  Store store(folder.path() / "state.sqlite");
  store.add_run({.id = "s:train:0", .session = "s", .owner = "alice", .config = {}, .user_metadata = {}, .snapshot = {}},
                {.done = true});
  store.set_snapshot("s:train:0", 0, "/runs/one/checkpoint-0", 9);
  EXPECT_EQ(store.checkpoint_bytes("alice"), 9);
  store.add_request("s:train:0", {.seq = 1, .kind = "forward_backward", .body = "data"});
  store.finish_requests({{"s:train:0", {.seq = 1, .kind = "forward_backward", .result = "done"}}});
  EXPECT_TRUE(store.folders().contains("/runs/one/checkpoint-0"));
  store.set_unloaded("s:train:0");
  EXPECT_FALSE(store.folders().contains("/runs/one/checkpoint-0")) << "a restarted server removes it";
  EXPECT_EQ(store.checkpoint_bytes("alice"), 0);
  EXPECT_EQ(store.drop_snapshot("s:train:0"), "/runs/one/checkpoint-0");
  EXPECT_EQ(store.requests_after("s:train:0", 0).front().body, "");
  EXPECT_EQ(store.result("s:train:0", "alice", 1)->result, "done");
}

// A snapshot replaces the requests before it, not those after it; large results are kept for a while, small ones longer.
TEST(Store, SnapshotsReplaceTheRequestsBeforeThem) {
  const train::ScratchFolder folder;
  Store store(folder.path() / "state.sqlite");
  store.add_run({.id = "s:train:0", .session = "s", .owner = "alice", .config = {}, .user_metadata = {}, .snapshot = {}},
                {.done = true});
  const std::string large(5000, 'x');
  for (int64_t seq = 1; seq <= 6; ++seq) {
    store.add_request("s:train:0", {.seq = seq, .kind = "forward_backward", .body = "data"});
    store.finish_requests({{"s:train:0", {.seq = seq, .kind = "forward_backward", .result = seq == 1 ? "small" : large}}});
  }
  auto bodies = [&] {
    std::string all;
    for (const auto& request : store.requests_after("s:train:0", 0)) all += request.body.empty() ? '-' : '+';
    return all;
  };
  store.set_snapshot("s:train:0", 2, "/runs/1/checkpoint-2", 5);
  EXPECT_EQ(bodies(), "--++++");
  store.set_snapshot("s:train:0", 5, "/runs/2/checkpoint-5", 5);
  EXPECT_EQ(bodies(), "-----+");
  EXPECT_EQ(store.run("s:train:0", "alice")->snapshot_seq, 5);
  store.forget_results(60);
  EXPECT_EQ(store.result("s:train:0", "alice", 6)->result, large);
  store.forget_results(-60);
  EXPECT_EQ(store.result("s:train:0", "alice", 6)->result, "");
  EXPECT_EQ(store.result("s:train:0", "alice", 1)->result, "small");
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

// Earlier versions did not store their sizes, which are read from their folders once.
TEST(Store, UnnamedWeightsCountInTheBytesOfTheirOwner) {
  const train::ScratchFolder folder;
  const auto file = folder.path() / "state.sqlite", old = folder.path() / "samplers/0/checkpoint-1";
  std::filesystem::create_directories(old);
  append_line(old / "weights", "12");  // 3 bytes, with the end of the line
  Database(file).execute(fmt::format("CREATE TABLE samplers(id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, "
                                     "model_path TEXT NOT NULL, folder TEXT NOT NULL, created REAL NOT NULL); "
                                     "INSERT INTO samplers VALUES('s:sample:0', 's', 'alice', '', '{}', 1), "
                                     "('s:sample:1', 's', 'alice', '', '/missing', 1), ('s:sample:2', 's', 'alice', 'm', '', 1)",
                                     old.string())
                             .c_str());
  for (int64_t expected : {3 + 7, 3 + 14}) {
    Store store(file);
    store.add_sampler({.id = fmt::format("s:sample:{}", expected),
                       .session = "s",
                       .owner = "alice",
                       .model_path = {},
                       .folder = "/1",
                       .bytes = 7});
    EXPECT_EQ(store.checkpoint_bytes("alice"), expected);
    EXPECT_EQ(store.checkpoint_bytes("bob"), 0);
  }
}

TEST(Store, SnapshotsOfEarlierVersionsCount) {
  const train::ScratchFolder folder;
  const auto file = folder.path() / "state.sqlite", old = folder.path() / "runs/0/checkpoint-1";
  std::filesystem::create_directories(old);
  append_line(old / "weights", "12");
  Database(file).execute(
      fmt::format("CREATE TABLE runs(id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, config TEXT NOT NULL, "
                  "user_metadata TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL, executed INTEGER NOT NULL DEFAULT 0, "
                  "snapshot_seq INTEGER NOT NULL DEFAULT 0, snapshot TEXT NOT NULL DEFAULT '', unloaded INTEGER NOT NULL DEFAULT "
                  "0); INSERT INTO runs VALUES('s:train:0', 's', 'alice', '{{}}', '{{}}', 1, 1, 3, 2, '{}', 0)",
                  old.string())
          .c_str());
  Store store(file);
  EXPECT_EQ(store.checkpoint_bytes("alice"), 3);
  store.set_snapshot("s:train:0", 3, "/runs/1/checkpoint-3", 5);
  EXPECT_EQ(store.checkpoint_bytes("alice"), 5);
}

// Earlier versions kept bodies in the rows of their requests, which an update writes again.
TEST(Store, BodiesOfEarlierVersionsAreKept) {
  const train::ScratchFolder folder;
  const auto file = folder.path() / "state.sqlite";
  Database(file).execute(
      "CREATE TABLE requests(run TEXT NOT NULL, seq INTEGER NOT NULL, owner TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT "
      "NULL, "
      "digest INTEGER NOT NULL, done REAL, failed INTEGER NOT NULL DEFAULT 0, result BLOB, content_type TEXT NOT NULL DEFAULT "
      "'', "
      "PRIMARY KEY(run, seq)); INSERT INTO requests(run, seq, owner, kind, body, digest, done) VALUES"
      "('s:train:0', 1, 'alice', 'forward_backward', x'', 0, 1), ('s:train:0', 2, 'alice', 'forward_backward', x'6f6e65', 0, 1), "
      "('s:train:0', 3, 'alice', 'forward_backward', x'74776f', 0, NULL)");
  for (int opened = 0; opened < 2; ++opened) {
    Store store(file);
    EXPECT_EQ(store.requests_after("s:train:0", 0).size(), 2u);
    EXPECT_EQ(store.requests_after("s:train:0", 0).front().body, "");
    EXPECT_EQ(store.requests_after("s:train:0", 0).back().body, "one");
    EXPECT_EQ(store.request("s:train:0", 3)->body, "two");
    EXPECT_EQ(store.pending("alice").bytes, 3);
  }
}

// A body that is larger than everything else is on the disk once: finishing its request writes only the result.
TEST(Store, FinishingARequestDoesNotWriteItsBodyAgain) {
  const train::ScratchFolder folder;
  const auto log = folder.path() / "state.sqlite-wal";
  Store store(folder.path() / "state.sqlite");
  store.add_run({.id = "s:train:0", .session = "s", .owner = "alice", .config = {}, .user_metadata = {}, .snapshot = {}},
                {.done = true});
  constexpr size_t kBody = 1'000'000;  // less than the log may have before SQLite moves it into the file
  store.add_request("s:train:0", {.seq = 1, .kind = "forward_backward", .body = std::string(kBody, 'x')});
  const auto accepted = std::filesystem::file_size(log);
  EXPECT_GT(accepted, kBody);
  store.finish_requests({{"s:train:0", {.seq = 1, .kind = "forward_backward", .result = "done"}}});
  EXPECT_LT(std::filesystem::file_size(log) - accepted, kBody / 10);
  EXPECT_EQ(store.requests_after("s:train:0", 0).front().body.size(), kBody);
}

// A folder is free for another base model when nothing is left that this one trained.
TEST(Store, HasWeightsUntilTheyAreUnloadedAndRemoved) {
  const train::ScratchFolder folder;
  Store store(folder.path() / "state.sqlite");
  EXPECT_FALSE(store.has_weights());
  store.add_run({.id = "s:train:0", .session = "s", .owner = "alice", .config = {}, .user_metadata = {}, .snapshot = {}},
                {.done = true});
  EXPECT_TRUE(store.has_weights());
  store.set_unloaded("s:train:0");
  EXPECT_FALSE(store.has_weights());
  const Checkpoint checkpoint{.run = "s:train:0", .kind = "weights", .name = "n", .owner = "alice", .folder = "/n", .config = {}};
  store.add_checkpoint(checkpoint);
  EXPECT_TRUE(store.has_weights());
  store.remove_checkpoint(checkpoint);
  store.add_sampler({.id = "s:sample:0", .session = "s", .owner = "alice", .model_path = "tinker://a/weights/n", .folder = {}});
  EXPECT_FALSE(store.has_weights());
  store.add_sampler({.id = "s:sample:1", .session = "s", .owner = "alice", .model_path = {}, .folder = "/s"});
  EXPECT_TRUE(store.has_weights());
}

// The oldest of all sessions go, as many as needed, and none if that would not suffice.
TEST(Store, UnnamedWeightsMakeRoom) {
  const train::ScratchFolder folder;
  Store store(folder.path() / "state.sqlite");
  auto add = [&](const std::string& session, int64_t number) {
    const auto id = fmt::format("{}:sample:{}", session, number);
    store.add_sampler({.id = id, .session = session, .owner = "alice", .model_path = {}, .folder = "/" + id, .bytes = 10});
  };
  EXPECT_EQ(store.add_checkpoint(
                {.run = "a", .kind = "weights", .name = "n", .owner = "alice", .folder = "/n", .config = {}, .bytes = 50}),
            "");
  for (int64_t i = 0; i < 4; ++i) add("a", i);
  for (int64_t i = 0; i < 3; ++i) add("b", i);
  add("a", 4);
  EXPECT_EQ(store.checkpoint_bytes("alice"), 130);
  EXPECT_EQ(store.drop_samplers_to_fit("alice", 131, 2), std::vector<std::string>{});
  EXPECT_EQ(store.drop_samplers_to_fit("alice", 90, 2), std::nullopt) << "four can go";
  EXPECT_EQ(store.drop_samplers_to_fit("bob", 0, 0), std::nullopt);
  EXPECT_EQ(store.checkpoint_bytes("alice"), 130);
  EXPECT_EQ(store.drop_samplers_to_fit("alice", 91, 2),
            (std::vector<std::string>{"/a:sample:0", "/a:sample:1", "/a:sample:2", "/b:sample:0"}));
  EXPECT_EQ(store.checkpoint_bytes("alice"), 90);
  EXPECT_EQ(store.add_checkpoint(
                {.run = "a", .kind = "weights", .name = "n", .owner = "alice", .folder = "/m", .config = {}, .bytes = 5}),
            "/n");
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
