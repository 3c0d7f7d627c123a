#include "hone/tinker/state/store.h"

#include <chrono>

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/tinker/state/columns.h"

namespace hone::tinker {
namespace {

constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS sessions(id TEXT PRIMARY KEY, owner TEXT NOT NULL, created REAL NOT NULL, finished INTEGER NOT NULL DEFAULT 0,
  info TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs(id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, config TEXT NOT NULL, user_metadata TEXT NOT NULL,
  created REAL NOT NULL, used REAL NOT NULL, executed INTEGER NOT NULL DEFAULT 0, snapshot_seq INTEGER NOT NULL DEFAULT 0,
  snapshot TEXT NOT NULL DEFAULT '', unloaded INTEGER NOT NULL DEFAULT 0, snapshot_bytes INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS requests(run TEXT NOT NULL, seq INTEGER NOT NULL, owner TEXT NOT NULL, kind TEXT NOT NULL,
  digest INTEGER NOT NULL, done REAL, failed INTEGER NOT NULL DEFAULT 0, result BLOB, content_type TEXT NOT NULL DEFAULT '', PRIMARY KEY(run, seq));
CREATE TABLE IF NOT EXISTS bodies(run TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(run, seq));
CREATE INDEX IF NOT EXISTS pending ON requests(owner) WHERE done IS NULL;
CREATE INDEX IF NOT EXISTS large_results ON requests(done) WHERE length(result) > 4096;
CREATE TABLE IF NOT EXISTS checkpoints(run TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, folder TEXT NOT NULL,
  config TEXT NOT NULL, bytes INTEGER NOT NULL, created REAL NOT NULL, expires REAL, public INTEGER NOT NULL DEFAULT 0, user_metadata TEXT NOT NULL,
  PRIMARY KEY(run, kind, name));
CREATE TABLE IF NOT EXISTS settings(run TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS samplers(id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, model_path TEXT NOT NULL, folder TEXT NOT NULL,
  created REAL NOT NULL, bytes INTEGER NOT NULL DEFAULT 0);
)";

constexpr const char* kRunColumns =
    "SELECT id, session, owner, config, user_metadata, used, executed, snapshot_seq, snapshot, unloaded FROM runs ";
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

bool has_column(Database& database, const std::string& table, const std::string& column) {
  auto known = database.prepare("SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  return known.bind(table).bind(column).step();
}

// Earlier versions stored bodies with their requests.
void move_bodies(Database& database) {
  if (!has_column(database, "requests", "body")) return;
  log::info("converting the requests of an earlier version");
  Transaction transaction(database);
  database.execute("INSERT INTO bodies(run, seq, body) SELECT run, seq, body FROM requests WHERE length(body) > 0");
  database.execute("ALTER TABLE requests DROP COLUMN body");
  fault("tinker.convert");
  transaction.commit();
}

// Earlier versions did not count unnamed weights and snapshots: adds the column of their sizes to a table whose rows name
// folders.
void add_folder_bytes(Database& database, const std::string& table, const std::string& folder, const std::string& bytes) {
  if (has_column(database, table, bytes)) return;
  Transaction transaction(database);
  database.execute(fmt::format("ALTER TABLE {} ADD COLUMN {} INTEGER NOT NULL DEFAULT 0", table, bytes).c_str());
  auto rows = database.prepare(fmt::format("SELECT DISTINCT {1} FROM {0} WHERE {1} <> ''", table, folder));
  const auto update = fmt::format("UPDATE {} SET {} = ? WHERE {} = ?", table, bytes, folder);
  for (const auto& saved : first_column(rows)) database.prepare(update).bind(saved_bytes(saved)).bind(saved).run();
  transaction.commit();
}

}  // namespace

double unix_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Json RunConfig::to_json() const {
  return {{"rank", rank},           {"alpha", alpha},
          {"seed", seed},           {"train_attn", train_attn},
          {"train_mlp", train_mlp}, {"train_unembed", train_unembed},
          {"dropout", dropout}};
}

RunConfig RunConfig::from_json(const Json& json) {
  RunConfig config;
  if (!json.is_object()) return config;
  config.rank = json.value("rank", config.rank);
  config.alpha = json.value("alpha", config.alpha);
  config.seed = json.value("seed", config.seed);
  config.train_attn = json.value("train_attn", true);
  config.train_mlp = json.value("train_mlp", true);
  config.train_unembed = json.value("train_unembed", true);
  config.dropout = json.value("dropout", 0.0);
  return config;
}

Store::Store(const std::filesystem::path& file) try : writer_(file), reader_(file) {
  writer_.execute(kSchema);
  move_bodies(writer_);
  add_folder_bytes(writer_, "samplers", "folder", "bytes");
  add_folder_bytes(writer_, "runs", "snapshot", "snapshot_bytes");
} catch (const UserError& problem) {
  if (!problem.hint().empty()) throw;
  throw UserError(problem.code(), fmt::format("{}: {}", file.string(), problem.what()),
                  problem.code() == ExitCode::out_of_space ? "free some space, or name another `tinker_dir`"
                                                           : "restore the file from a backup, or name another `tinker_dir`");
}

bool Store::add_session(const Session& session) {
  bool is_owners = false;
  commits_.run([&](Database& database) {
    database.prepare("INSERT OR IGNORE INTO sessions(id, owner, created, info) VALUES(?,?,?,?)")
        .bind(session.id)
        .bind(session.owner)
        .bind(unix_seconds())
        .bind(dumped(session.info))
        .run();
    auto owner = database.prepare("SELECT owner FROM sessions WHERE id = ?");
    is_owners = owner.bind(session.id).step() && owner.text(0) == session.owner;
  });
  return is_owners;
}

std::optional<Session> Store::session(const std::string& id, const std::string& owner) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare("SELECT finished, info FROM sessions WHERE id = ? AND owner = ?");
  if (!row.bind(id).bind(owner).step()) return std::nullopt;
  return Session{id, owner, row.integer(0) != 0, stored_json(row.text(1))};
}

std::vector<std::string> Store::sessions(const std::string& owner, Page page) {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare("SELECT id FROM sessions WHERE owner = ? ORDER BY created DESC LIMIT ? OFFSET ?");
  return first_column(rows.bind(owner).bind(page.limit).bind(page.offset));
}

void Store::finish_session(const std::string& id) {
  commits_.run([&](Database& database) { database.prepare("UPDATE sessions SET finished = 1 WHERE id = ?").bind(id).run(); });
}

std::optional<Run> Store::run_of_any_owner(const std::string& id) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare(std::string(kRunColumns) + "WHERE id = ?");
  if (!row.bind(id).step()) return std::nullopt;
  return run_in(row);
}

std::optional<Run> Store::run(const std::string& id, const std::string& owner) {
  auto found = run_of_any_owner(id);
  return found && found->owner == owner ? found : std::nullopt;
}

std::vector<Run> Store::runs(const std::string& owner, Page page) {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare(std::string(kRunColumns) + "WHERE owner = ? ORDER BY created DESC LIMIT ? OFFSET ?");
  rows.bind(owner).bind(page.limit).bind(page.offset);
  std::vector<Run> all;
  while (rows.step()) all.push_back(run_in(rows));
  return all;
}

int64_t Store::count_runs(const std::string& owner) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare("SELECT COUNT(*) FROM runs WHERE owner = ?");
  return row.bind(owner).step() ? row.integer(0) : 0;
}

std::vector<std::string> Store::runs_of_session(const std::string& session) {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare("SELECT id FROM runs WHERE session = ? ORDER BY created");
  return first_column(rows.bind(session));
}

Json Store::settings(const std::string& run) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare("SELECT value FROM settings WHERE run = ?");
  return row.bind(run).step() ? stored_json(row.text(0)) : Json();
}

void Store::set_settings(const std::string& run, const Json& settings) {
  commits_.run([&](Database& database) {
    database.prepare("INSERT OR REPLACE INTO settings(run, value) VALUES(?,?)").bind(run).bind(dumped(settings)).run();
  });
}

void Store::set_unloaded(const std::string& run) {
  commits_.run([&](Database& database) { database.prepare("UPDATE runs SET unloaded = 1 WHERE id = ?").bind(run).run(); });
}

bool Store::has_weights() {
  std::lock_guard lock(reading_);
  return reader_
      .prepare(
          "SELECT 1 FROM runs WHERE unloaded = 0 UNION ALL SELECT 1 FROM checkpoints "
          "UNION ALL SELECT 1 FROM samplers WHERE folder <> '' LIMIT 1")
      .step();
}

}  // namespace hone::tinker
