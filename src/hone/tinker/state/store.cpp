#include "hone/tinker/state/store.h"

#include <chrono>

namespace hone::tinker {
namespace {

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS sessions(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created REAL NOT NULL, finished INTEGER NOT NULL DEFAULT 0,
  info TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs(id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, config TEXT NOT NULL, user_metadata TEXT NOT NULL,
  created REAL NOT NULL, used REAL NOT NULL, executed INTEGER NOT NULL DEFAULT 0, snapshot_seq INTEGER NOT NULL DEFAULT 0,
  snapshot TEXT NOT NULL DEFAULT '', unloaded INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS requests(run TEXT NOT NULL, seq INTEGER NOT NULL, owner TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL,
  digest INTEGER NOT NULL, done REAL, failed INTEGER NOT NULL DEFAULT 0, result BLOB, content_type TEXT NOT NULL DEFAULT '', PRIMARY KEY(run, seq));
CREATE INDEX IF NOT EXISTS pending ON requests(owner) WHERE done IS NULL;
CREATE TABLE IF NOT EXISTS checkpoints(run TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, folder TEXT NOT NULL,
  config TEXT NOT NULL, bytes INTEGER NOT NULL, created REAL NOT NULL, expires REAL, public INTEGER NOT NULL DEFAULT 0, user_metadata TEXT NOT NULL,
  PRIMARY KEY(run, kind, name));
CREATE TABLE IF NOT EXISTS samplers(id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, model_path TEXT NOT NULL, folder TEXT NOT NULL,
  created REAL NOT NULL);
)";

constexpr const char* kRunColumns =
    "SELECT id, session, owner, config, user_metadata, used, executed, snapshot_seq, snapshot, unloaded FROM runs ";
constexpr const char* kCheckpointColumns =
    "SELECT run, kind, name, owner, folder, config, bytes, created, expires, public, user_metadata FROM checkpoints ";

Json stored_json(const std::string& text) {
  auto parsed = parse_json(text);
  return parsed ? std::move(*parsed) : Json();
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

Run run_in(const Statement& row) {
  return {.id = row.text(0),
          .session = row.text(1),
          .owner = row.text(2),
          .config = RunConfig::from_json(stored_json(row.text(3))),
          .user_metadata = stored_json(row.text(4)),
          .used = row.real(5),
          .executed = row.integer(6),
          .snapshot_seq = row.integer(7),
          .snapshot = row.text(8),
          .unloaded = row.integer(9) != 0};
}

Checkpoint checkpoint_in(const Statement& row) {
  return {.run = row.text(0),
          .kind = row.text(1),
          .name = row.text(2),
          .owner = row.text(3),
          .folder = row.text(4),
          .config = RunConfig::from_json(stored_json(row.text(5))),
          .bytes = row.integer(6),
          .created = row.real(7),
          .expires = row.optional_real(8),
          .is_public = row.integer(9) != 0,
          .user_metadata = stored_json(row.text(10))};
}

// FNV-1a: tells a repeated request from another one under the same number.
int64_t digest_of(const StoredRequest& request) {
  uint64_t hash = 0xcbf29ce484222325u;
  auto add = [&](std::string_view bytes) {
    for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  };
  add(request.kind);
  add(request.body);
  return static_cast<int64_t>(hash);
}

std::vector<std::string> first_column(Statement& statement) {
  std::vector<std::string> values;
  while (statement.step()) values.push_back(statement.text(0));
  return values;
}

void insert_request(Database& database, const std::string& run, const std::string& owner, const StoredRequest& request) {
  auto insert = database.prepare(
      "INSERT INTO requests(run, seq, owner, kind, body, digest, done, failed, result, content_type) "
      "VALUES(?,?,?,?,?,?,?,?,?,?)");
  insert.bind(run).bind(request.seq).bind(owner).bind(request.kind).bind_blob(request.body).bind(digest_of(request));
  insert.bind_optional(request.done ? std::optional(unix_seconds()) : std::nullopt);
  insert.bind(int64_t{request.failed}).bind_blob(request.result).bind(request.content_type).run();
}

}  // namespace

double unix_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Json RunConfig::to_json() const {
  return {{"rank", rank}, {"seed", seed}, {"train_attn", train_attn}, {"train_mlp", train_mlp}, {"train_unembed", train_unembed}};
}

RunConfig RunConfig::from_json(const Json& json) {
  RunConfig config;
  if (!json.is_object()) return config;
  config.rank = json.value("rank", config.rank);
  config.seed = json.value("seed", config.seed);
  config.train_attn = json.value("train_attn", true);
  config.train_mlp = json.value("train_mlp", true);
  config.train_unembed = json.value("train_unembed", true);
  return config;
}

Store::Store(const std::filesystem::path& file) : database_(file) { database_.execute(kSchema); }

void Store::add_session(const Session& session) {
  std::lock_guard lock(mutex_);
  database_.prepare("INSERT INTO sessions(id, owner, created, info) VALUES(?,?,?,?)")
      .bind(session.id)
      .bind(session.owner)
      .bind(unix_seconds())
      .bind(dumped(session.info))
      .run();
}

std::optional<Session> Store::session(const std::string& id, const std::string& owner) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare("SELECT finished, info FROM sessions WHERE id = ? AND owner = ?");
  if (!row.bind(id).bind(owner).step()) return std::nullopt;
  return Session{id, owner, row.integer(0) != 0, stored_json(row.text(1))};
}

std::vector<std::string> Store::sessions(const std::string& owner, Page page) {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare("SELECT id FROM sessions WHERE owner = ? ORDER BY created DESC LIMIT ? OFFSET ?");
  return first_column(rows.bind(owner).bind(page.limit).bind(page.offset));
}

void Store::finish_session(const std::string& id) {
  std::lock_guard lock(mutex_);
  database_.prepare("UPDATE sessions SET finished = 1 WHERE id = ?").bind(id).run();
}

bool Store::add_run(const Run& run, const StoredRequest& creation) {
  std::lock_guard lock(mutex_);
  Transaction transaction(database_);
  auto insert = database_.prepare(
      "INSERT OR IGNORE INTO runs(id, session, owner, config, user_metadata, created, used) VALUES(?,?,?,?,?,?,?)");
  const double now = unix_seconds();
  insert.bind(run.id).bind(run.session).bind(run.owner).bind(dumped(run.config.to_json())).bind(dumped(run.user_metadata));
  insert.bind(now).bind(now).run();
  const bool fresh = database_.changes() > 0;
  if (fresh) insert_request(database_, run.id, run.owner, creation);
  transaction.commit();
  return fresh;
}

std::optional<Run> Store::run_of_any_owner(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare((std::string(kRunColumns) + "WHERE id = ?").c_str());
  if (!row.bind(id).step()) return std::nullopt;
  return run_in(row);
}

std::optional<Run> Store::run(const std::string& id, const std::string& owner) {
  auto found = run_of_any_owner(id);
  return found && found->owner == owner ? found : std::nullopt;
}

std::vector<Run> Store::runs(const std::string& owner, Page page) {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare((std::string(kRunColumns) + "WHERE owner = ? ORDER BY created DESC LIMIT ? OFFSET ?").c_str());
  rows.bind(owner).bind(page.limit).bind(page.offset);
  std::vector<Run> all;
  while (rows.step()) all.push_back(run_in(rows));
  return all;
}

int64_t Store::count_runs(const std::string& owner) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare("SELECT COUNT(*) FROM runs WHERE owner = ?");
  return row.bind(owner).step() ? row.integer(0) : 0;
}

std::vector<std::string> Store::runs_of_session(const std::string& session) {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare("SELECT id FROM runs WHERE session = ? ORDER BY created");
  return first_column(rows.bind(session));
}

void Store::set_unloaded(const std::string& run) {
  std::lock_guard lock(mutex_);
  database_.prepare("UPDATE runs SET unloaded = 1 WHERE id = ?").bind(run).run();
}

void Store::set_snapshot(const std::string& run, int64_t seq, const std::string& folder) {
  std::lock_guard lock(mutex_);
  Transaction transaction(database_);
  database_.prepare("UPDATE runs SET snapshot_seq = ?, snapshot = ? WHERE id = ?").bind(seq).bind(folder).bind(run).run();
  database_.prepare("UPDATE requests SET body = x'' WHERE run = ? AND seq <= ? AND done IS NOT NULL").bind(run).bind(seq).run();
  transaction.commit();
}

Store::Added Store::add_request(const std::string& run, const StoredRequest& request) {
  std::lock_guard lock(mutex_);
  Transaction transaction(database_);
  {
    auto known = database_.prepare("SELECT digest FROM requests WHERE run = ? AND seq = ?");
    if (known.bind(run).bind(request.seq).step())
      return known.integer(0) == digest_of(request) ? Added::repeated : Added::differs;
  }
  std::string owner;
  {
    auto row = database_.prepare("UPDATE runs SET used = ? WHERE id = ? RETURNING owner");
    if (row.bind(unix_seconds()).bind(run).step()) owner = row.text(0);
  }
  insert_request(database_, run, owner, request);
  transaction.commit();
  return Added::fresh;
}

std::optional<StoredRequest> Store::request(const std::string& run, int64_t seq) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare("SELECT kind, body, done, failed, result, content_type FROM requests WHERE run = ? AND seq = ?");
  if (!row.bind(run).bind(seq).step()) return std::nullopt;
  return StoredRequest{seq,         row.text(0), row.text(1), row.optional_real(2).has_value(), row.integer(3) != 0,
                       row.text(4), row.text(5)};
}

std::optional<StoredRequest> Store::result(const std::string& run, const std::string& owner, int64_t seq) {
  std::lock_guard lock(mutex_);
  auto row =
      database_.prepare("SELECT kind, done, failed, result, content_type FROM requests WHERE run = ? AND owner = ? AND seq = ?");
  if (!row.bind(run).bind(owner).bind(seq).step()) return std::nullopt;
  return StoredRequest{.seq = seq,
                       .kind = row.text(0),
                       .body = {},
                       .done = row.optional_real(1).has_value(),
                       .failed = row.integer(2) != 0,
                       .result = row.text(3),
                       .content_type = row.text(4)};
}

std::vector<StoredRequest> Store::requests_behind(const std::string& run, int64_t seq) {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare(
      "SELECT seq, kind, body, failed FROM requests WHERE run = ? AND seq > ? AND done IS NOT NULL ORDER BY seq");
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

void Store::finish_request(const std::string& run, const StoredRequest& request) {
  std::lock_guard lock(mutex_);
  Transaction transaction(database_);
  database_
      .prepare(
          "UPDATE requests SET done = ?, failed = ?, result = ?, content_type = ?, body = CASE WHEN kind IN ('forward_backward', "
          "'optim_step', 'load_weights') THEN body ELSE x'' END WHERE run = ? AND seq = ?")
      .bind(unix_seconds())
      .bind(int64_t{request.failed})
      .bind_blob(request.result)
      .bind(request.content_type)
      .bind(run)
      .bind(request.seq)
      .run();
  database_.prepare("UPDATE runs SET executed = ? WHERE id = ?").bind(request.seq).bind(run).run();
  transaction.commit();
}

std::vector<std::pair<std::string, int64_t>> Store::pending_requests() {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare("SELECT run, seq FROM requests WHERE done IS NULL ORDER BY run, seq");
  std::vector<std::pair<std::string, int64_t>> all;
  while (rows.step()) all.emplace_back(rows.text(0), rows.integer(1));
  return all;
}

int64_t Store::count_pending(const std::string& owner) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare("SELECT COUNT(*) FROM requests WHERE owner = ? AND done IS NULL");
  return row.bind(owner).step() ? row.integer(0) : 0;
}

bool Store::add_checkpoint(const Checkpoint& checkpoint, bool overwrite, std::string& replaced) {
  std::lock_guard lock(mutex_);
  Transaction transaction(database_);
  {
    auto known = database_.prepare("SELECT folder FROM checkpoints WHERE run = ? AND kind = ? AND name = ?");
    if (known.bind(checkpoint.run).bind(checkpoint.kind).bind(checkpoint.name).step()) {
      if (!overwrite) return false;
      replaced = known.text(0);
    }
  }
  auto insert = database_.prepare(
      "INSERT OR REPLACE INTO checkpoints(run, kind, name, owner, folder, config, bytes, created, expires, public, "
      "user_metadata) "
      "VALUES(?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(checkpoint.run).bind(checkpoint.kind).bind(checkpoint.name).bind(checkpoint.owner).bind(checkpoint.folder);
  insert.bind(dumped(checkpoint.config.to_json()))
      .bind(checkpoint.bytes)
      .bind(checkpoint.created)
      .bind_optional(checkpoint.expires);
  insert.bind(int64_t{checkpoint.is_public}).bind(dumped(checkpoint.user_metadata)).run();
  transaction.commit();
  return true;
}

std::optional<Checkpoint> Store::checkpoint(const std::string& path, const std::string& owner) {
  constexpr std::string_view kScheme = "tinker://";
  if (!path.starts_with(kScheme)) return std::nullopt;
  const auto rest = path.substr(kScheme.size());
  const auto first = rest.find('/'), second = first == rest.npos ? rest.npos : rest.find('/', first + 1);
  if (second == rest.npos || rest.find('/', second + 1) != rest.npos) return std::nullopt;
  std::lock_guard lock(mutex_);
  auto row = database_.prepare(
      (std::string(kCheckpointColumns) +
       "WHERE run = ? AND kind = ? AND name = ? AND (owner = ? OR public = 1) AND (expires IS NULL OR expires > ?)")
          .c_str());
  row.bind(rest.substr(0, first)).bind(rest.substr(first + 1, second - first - 1)).bind(rest.substr(second + 1));
  if (!row.bind(owner).bind(unix_seconds()).step()) return std::nullopt;
  return checkpoint_in(row);
}

std::vector<Checkpoint> Store::checkpoints(const std::string& owner, const std::string& run, Page page) {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare((std::string(kCheckpointColumns) +
                                 "WHERE owner = ? AND (? = '' OR run = ?) AND (expires IS NULL OR expires > ?) "
                                 "ORDER BY created DESC LIMIT ? OFFSET ?")
                                    .c_str());
  rows.bind(owner).bind(run).bind(run).bind(unix_seconds()).bind(page.limit).bind(page.offset);
  std::vector<Checkpoint> all;
  while (rows.step()) all.push_back(checkpoint_in(rows));
  return all;
}

int64_t Store::count_checkpoints(const std::string& owner, const std::string& run) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare(
      "SELECT COUNT(*) FROM checkpoints WHERE owner = ? AND (? = '' OR run = ?) AND (expires IS NULL OR expires > ?)");
  return row.bind(owner).bind(run).bind(run).bind(unix_seconds()).step() ? row.integer(0) : 0;
}

int64_t Store::checkpoint_bytes(const std::string& owner) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare("SELECT COALESCE(SUM(bytes), 0) FROM checkpoints WHERE owner = ?");
  return row.bind(owner).step() ? row.integer(0) : 0;
}

void Store::remove_checkpoint(const Checkpoint& checkpoint) {
  std::lock_guard lock(mutex_);
  database_.prepare("DELETE FROM checkpoints WHERE run = ? AND kind = ? AND name = ? AND folder = ?")
      .bind(checkpoint.run)
      .bind(checkpoint.kind)
      .bind(checkpoint.name)
      .bind(checkpoint.folder)
      .run();
}

void Store::set_public(const Checkpoint& checkpoint, bool is_public) {
  std::lock_guard lock(mutex_);
  database_.prepare("UPDATE checkpoints SET public = ? WHERE run = ? AND kind = ? AND name = ?")
      .bind(int64_t{is_public})
      .bind(checkpoint.run)
      .bind(checkpoint.kind)
      .bind(checkpoint.name)
      .run();
}

void Store::set_expiry(const Checkpoint& checkpoint, std::optional<double> expires) {
  std::lock_guard lock(mutex_);
  database_.prepare("UPDATE checkpoints SET expires = ? WHERE run = ? AND kind = ? AND name = ?")
      .bind_optional(expires)
      .bind(checkpoint.run)
      .bind(checkpoint.kind)
      .bind(checkpoint.name)
      .run();
}

std::vector<Checkpoint> Store::expired_checkpoints() {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare((std::string(kCheckpointColumns) + "WHERE expires <= ?").c_str());
  rows.bind(unix_seconds());
  std::vector<Checkpoint> all;
  while (rows.step()) all.push_back(checkpoint_in(rows));
  return all;
}

bool Store::add_sampler(const SamplerRow& sampler) {
  std::lock_guard lock(mutex_);
  auto insert =
      database_.prepare("INSERT OR IGNORE INTO samplers(id, session, owner, model_path, folder, created) VALUES(?,?,?,?,?,?)");
  insert.bind(sampler.id).bind(sampler.session).bind(sampler.owner).bind(sampler.model_path).bind(sampler.folder);
  insert.bind(unix_seconds()).run();
  return database_.changes() > 0;
}

std::optional<SamplerRow> Store::sampler(const std::string& id, const std::string& owner) {
  std::lock_guard lock(mutex_);
  auto row = database_.prepare("SELECT session, model_path, folder FROM samplers WHERE id = ? AND owner = ?");
  if (!row.bind(id).bind(owner).step()) return std::nullopt;
  return SamplerRow{id, row.text(0), owner, row.text(1), row.text(2)};
}

std::vector<std::string> Store::samplers_of_session(const std::string& session) {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare("SELECT id FROM samplers WHERE session = ? ORDER BY created");
  return first_column(rows.bind(session));
}

std::vector<std::string> Store::drop_old_samplers(const std::string& session, int64_t kept) {
  std::lock_guard lock(mutex_);
  auto rows = database_.prepare(
      "DELETE FROM samplers WHERE session = ?1 AND folder <> '' AND id NOT IN (SELECT id FROM samplers WHERE session = ?1 AND "
      "folder <> '' ORDER BY created DESC LIMIT ?2) RETURNING folder");
  return first_column(rows.bind(session).bind(kept));
}

std::set<std::string> Store::folders() {
  std::lock_guard lock(mutex_);
  auto rows =
      database_.prepare("SELECT folder FROM checkpoints UNION SELECT folder FROM samplers UNION SELECT snapshot FROM runs");
  auto named = first_column(rows);
  return {named.begin(), named.end()};
}

void Store::forget_results(double older_than) {
  std::lock_guard lock(mutex_);
  database_.prepare("UPDATE requests SET result = x'' WHERE seq > 0 AND done < ? AND length(result) > 4096")
      .bind(unix_seconds() - older_than)
      .run();
}

}  // namespace hone::tinker
