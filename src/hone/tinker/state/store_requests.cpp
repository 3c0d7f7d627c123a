// Requests of training runs: their kind, their data until no restart needs them, and their results until the client has them.
#include <limits>

#include "hone/base/error.h"
#include "hone/base/stable_hash.h"
#include "hone/tinker/state/columns.h"
#include "hone/tinker/state/store.h"

namespace hone::tinker {
namespace {

// Distinguishes a retry from another request with the same sequence number.
int64_t digest_of(const StoredRequest& request) {
  return static_cast<int64_t>(stable_hash(request.body, stable_hash(request.kind)));
}

// The body is a row of its own: an update of the request would write it again.
void insert_request(Database& database, const std::string& run, const std::string& owner, const StoredRequest& request,
                    int64_t digest) {
  auto insert = database.prepare(
      "INSERT INTO requests(run, seq, owner, kind, digest, done, failed, result, content_type) VALUES(?,?,?,?,?,?,?,?,?)");
  insert.bind(run).bind(request.seq).bind(owner).bind(request.kind).bind(digest);
  insert.bind_optional(request.done ? std::optional(unix_seconds()) : std::nullopt);
  insert.bind(int64_t{request.failed}).bind_blob(request.result).bind(request.content_type).run();
  if (request.body.empty()) return;
  auto body = database.prepare("INSERT INTO bodies(run, seq, body) VALUES(?,?,?)");
  body.bind(run).bind(request.seq).bind_blob(request.body).run();
}

// Drops the bodies of finished requests up to `seq`.
void drop_bodies(Database& database, const std::string& run, int64_t seq) {
  auto drop = database.prepare(
      "DELETE FROM bodies WHERE run = ?1 AND seq <= ?2 AND "
      "(SELECT done FROM requests WHERE run = ?1 AND seq = bodies.seq) IS NOT NULL");
  drop.bind(run).bind(seq).run();
}

}  // namespace

bool Store::add_run(const Run& run, const StoredRequest& creation) {
  bool fresh = false;
  const auto digest = digest_of(creation);
  commits_.run([&](Database& database) {
    auto insert = database.prepare(
        "INSERT OR IGNORE INTO runs(id, session, owner, config, user_metadata, created, used, executed, snapshot_seq) "
        "VALUES(?,?,?,?,?,?,?,?,?)");
    const double now = unix_seconds();
    insert.bind(run.id).bind(run.session).bind(run.owner).bind(dumped(run.config.to_json())).bind(dumped(run.user_metadata));
    insert.bind(now).bind(now).bind(run.executed).bind(run.snapshot_seq).run();
    fresh = database.changes() > 0;
    if (fresh) insert_request(database, run.id, run.owner, creation, digest);
  });
  return fresh;
}

Store::Added Store::add_request(const std::string& run, const StoredRequest& request) {
  auto added = Added::fresh;
  const auto digest = digest_of(request);  // others wait for the transaction, not for this
  auto add = [&](Database& database) {
    {
      auto known = database.prepare("SELECT digest FROM requests WHERE run = ? AND seq = ?");
      if (known.bind(run).bind(request.seq).step()) {
        added = known.integer(0) == digest ? Added::repeated : Added::differs;
        return;
      }
    }
    std::string owner;
    {
      auto row = database.prepare("UPDATE runs SET used = ? WHERE id = ? RETURNING owner");
      if (row.bind(unix_seconds()).bind(run).step()) owner = row.text(0);
    }
    insert_request(database, run, owner, request, digest);
  };
  commits_.run(add, "tinker.commit_request");
  return added;
}

int64_t Store::append_request(const std::string& run, StoredRequest request) {
  const auto digest = digest_of(request);
  commits_.run([&](Database& database) {
    std::string owner;
    {
      auto row = database.prepare("SELECT owner, (SELECT MAX(seq) FROM requests WHERE run = ?1) FROM runs WHERE id = ?1");
      HONE_CHECK(row.bind(run).step());
      owner = row.text(0);
      request.seq = row.integer(1) + 1;
    }
    insert_request(database, run, owner, request, digest);
    database.prepare("UPDATE runs SET used = ? WHERE id = ?").bind(unix_seconds()).bind(run).run();
  });
  return request.seq;
}

std::optional<StoredRequest> Store::request(const std::string& run, int64_t seq) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare(
      "SELECT kind, body, done, failed, result, content_type FROM requests LEFT JOIN bodies USING(run, seq) WHERE run = ? AND "
      "seq = ?");
  if (!row.bind(run).bind(seq).step()) return std::nullopt;
  return StoredRequest{seq,         row.text(0), row.text(1), row.optional_real(2).has_value(), row.integer(3) != 0,
                       row.text(4), row.text(5)};
}

std::optional<StoredRequest> Store::result(const std::string& run, const std::string& owner, int64_t seq) {
  std::lock_guard lock(reading_);
  auto row =
      reader_.prepare("SELECT kind, done, failed, result, content_type FROM requests WHERE run = ? AND owner = ? AND seq = ?");
  if (!row.bind(run).bind(owner).bind(seq).step()) return std::nullopt;
  return StoredRequest{.seq = seq,
                       .kind = row.text(0),
                       .body = {},
                       .done = row.optional_real(1).has_value(),
                       .failed = row.integer(2) != 0,
                       .result = row.text(3),
                       .content_type = row.text(4)};
}

std::vector<StoredRequest> Store::requests_after(const std::string& run, int64_t seq) {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare(
      "SELECT seq, kind, body, failed FROM requests LEFT JOIN bodies USING(run, seq) WHERE run = ? AND seq > ? AND done IS NOT "
      "NULL ORDER BY seq");
  rows.bind(run).bind(seq);
  std::vector<StoredRequest> all;
  while (rows.step())
    all.push_back({.seq = rows.integer(0),
                   .kind = rows.text(1),
                   .body = rows.text(2),
                   .done = true,
                   .failed = rows.integer(3) != 0,
                   .result = {},
                   .content_type = {}});
  return all;
}

void Store::finish_requests(const std::vector<std::pair<std::string, StoredRequest>>& requests) {
  commits_.run([&](Database& database) {
    for (const auto& [run, request] : requests) {
      auto finish =
          database.prepare("UPDATE requests SET done = ?, failed = ?, result = ?, content_type = ? WHERE run = ? AND seq = ?");
      finish.bind(unix_seconds()).bind(int64_t{request.failed}).bind_blob(request.result).bind(request.content_type);
      finish.bind(run).bind(request.seq).run();
      auto drop = database.prepare(
          "DELETE FROM bodies WHERE run = ?1 AND seq = ?2 AND (?3 OR (SELECT kind FROM requests WHERE run = ?1 AND seq = ?2) "
          "NOT IN ('forward_backward', 'optim_step', 'load_weights'))");
      drop.bind(run).bind(request.seq).bind(int64_t{request.failed}).run();
      database.prepare("UPDATE runs SET executed = ? WHERE id = ?").bind(request.seq).bind(run).run();
    }
  });
}

void Store::set_snapshot(const std::string& run, int64_t seq, const std::string& folder, int64_t bytes) {
  commits_.run([&](Database& database) {
    drop_bodies(database, run, seq);
    database.prepare("UPDATE runs SET snapshot_seq = ?, snapshot = ?, snapshot_bytes = ? WHERE id = ?")
        .bind(seq)
        .bind(folder)
        .bind(bytes)
        .bind(run)
        .run();
  });
}

std::string Store::drop_snapshot(const std::string& run) {
  std::string folder;
  commits_.run([&](Database& database) {
    {
      auto row = database.prepare("SELECT snapshot FROM runs WHERE id = ?");
      if (row.bind(run).step()) folder = row.text(0);
    }
    database.prepare("UPDATE runs SET snapshot = '', snapshot_bytes = 0 WHERE id = ?").bind(run).run();
    drop_bodies(database, run, std::numeric_limits<int64_t>::max());
  });
  return folder;
}

std::vector<std::pair<std::string, int64_t>> Store::pending_requests() {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare("SELECT run, seq FROM requests WHERE done IS NULL ORDER BY run, seq");
  std::vector<std::pair<std::string, int64_t>> all;
  while (rows.step()) all.emplace_back(rows.text(0), rows.integer(1));
  return all;
}

Store::Pending Store::pending(const std::string& owner) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare(
      "SELECT COUNT(*), COALESCE(SUM(length(body)), 0) FROM requests LEFT JOIN bodies USING(run, seq) "
      "WHERE owner = ? AND done IS NULL");
  if (!row.bind(owner).step()) return {};
  return {row.integer(0), row.integer(1)};
}

void Store::forget_results(double older_than) {
  commits_.run([&](Database& database) {
    database.prepare("UPDATE requests SET result = x'' WHERE seq > 0 AND done < ? AND length(result) > 4096")
        .bind(unix_seconds() - older_than)
        .run();
  });
}

}  // namespace hone::tinker
