// Checkpoints, samplers, and their folders.
#include "hone/base/fault_injection.h"
#include "hone/tinker/state/columns.h"
#include "hone/tinker/state/store.h"

namespace hone::tinker {
namespace {

constexpr const char* kCheckpointColumns =
    "SELECT run, kind, name, owner, folder, config, bytes, created, expires, public, user_metadata FROM checkpoints ";

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

int64_t owned_bytes(Database& database, const std::string& owner) {
  auto row = database.prepare(
      "SELECT (SELECT COALESCE(SUM(bytes), 0) FROM checkpoints WHERE owner = ?1) + "
      "(SELECT COALESCE(SUM(bytes), 0) FROM samplers WHERE owner = ?1) + "
      "(SELECT COALESCE(SUM(snapshot_bytes), 0) FROM runs WHERE owner = ?1 AND unloaded = 0)");
  return row.bind(owner).step() ? row.integer(0) : 0;
}

}  // namespace

void remove_saved(const std::string& folder) {
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(std::filesystem::path(folder).parent_path(), ignored);
}

int64_t saved_bytes(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored))
    if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
  return bytes;
}

std::string Store::add_checkpoint(const Checkpoint& checkpoint) {
  std::string replaced;
  commits_.run([&](Database& database) {
    {
      auto known = database.prepare("SELECT folder FROM checkpoints WHERE run = ? AND kind = ? AND name = ?");
      if (known.bind(checkpoint.run).bind(checkpoint.kind).bind(checkpoint.name).step()) replaced = known.text(0);
    }
    auto insert = database.prepare(
        "INSERT OR REPLACE INTO checkpoints(run, kind, name, owner, folder, config, bytes, created, expires, public, "
        "user_metadata) "
        "VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    insert.bind(checkpoint.run).bind(checkpoint.kind).bind(checkpoint.name).bind(checkpoint.owner).bind(checkpoint.folder);
    insert.bind(dumped(checkpoint.config.to_json()))
        .bind(checkpoint.bytes)
        .bind(checkpoint.created)
        .bind_optional(checkpoint.expires);
    insert.bind(int64_t{checkpoint.is_public}).bind(dumped(checkpoint.user_metadata)).run();
    fault("tinker.add_checkpoint");
  });
  return replaced;
}

std::optional<Checkpoint> Store::checkpoint(const std::string& path, const std::string& owner) {
  const std::string_view scheme = path.starts_with("twinkle://") ? "twinkle://" : "tinker://";
  if (!path.starts_with(scheme)) return std::nullopt;
  const auto rest = path.substr(scheme.size());
  const auto first = rest.find('/'), second = first == rest.npos ? rest.npos : rest.find('/', first + 1);
  if (second == rest.npos || rest.find('/', second + 1) != rest.npos) return std::nullopt;
  std::lock_guard lock(reading_);
  auto row = reader_.prepare(
      std::string(kCheckpointColumns) +
      "WHERE run = ? AND kind = ? AND name = ? AND (owner = ? OR public = 1) AND (expires IS NULL OR expires > ?)");
  row.bind(rest.substr(0, first)).bind(rest.substr(first + 1, second - first - 1)).bind(rest.substr(second + 1));
  if (!row.bind(owner).bind(unix_seconds()).step()) return std::nullopt;
  return checkpoint_in(row);
}

std::vector<Checkpoint> Store::checkpoints(const std::string& owner, const std::string& run, Page page) {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare(std::string(kCheckpointColumns) +
                              "WHERE owner = ? AND (? = '' OR run = ?) AND (expires IS NULL OR expires > ?) "
                              "ORDER BY created DESC LIMIT ? OFFSET ?");
  rows.bind(owner).bind(run).bind(run).bind(unix_seconds()).bind(page.limit).bind(page.offset);
  std::vector<Checkpoint> all;
  while (rows.step()) all.push_back(checkpoint_in(rows));
  return all;
}

int64_t Store::count_checkpoints(const std::string& owner, const std::string& run) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare(
      "SELECT COUNT(*) FROM checkpoints WHERE owner = ? AND (? = '' OR run = ?) AND (expires IS NULL OR expires > ?)");
  return row.bind(owner).bind(run).bind(run).bind(unix_seconds()).step() ? row.integer(0) : 0;
}

int64_t Store::checkpoint_bytes(const std::string& owner) {
  std::lock_guard lock(reading_);
  return owned_bytes(reader_, owner);
}

void Store::remove_checkpoint(const Checkpoint& checkpoint) {
  auto remove = [&](Database& database) {
    database.prepare("DELETE FROM checkpoints WHERE run = ? AND kind = ? AND name = ? AND folder = ?")
        .bind(checkpoint.run)
        .bind(checkpoint.kind)
        .bind(checkpoint.name)
        .bind(checkpoint.folder)
        .run();
  };
  commits_.run(remove, "tinker.commit_removal");
}

void Store::set_public(const Checkpoint& checkpoint, bool is_public) {
  commits_.run([&](Database& database) {
    database.prepare("UPDATE checkpoints SET public = ? WHERE run = ? AND kind = ? AND name = ?")
        .bind(int64_t{is_public})
        .bind(checkpoint.run)
        .bind(checkpoint.kind)
        .bind(checkpoint.name)
        .run();
  });
}

void Store::set_expiry(const Checkpoint& checkpoint, std::optional<double> expires) {
  commits_.run([&](Database& database) {
    database.prepare("UPDATE checkpoints SET expires = ? WHERE run = ? AND kind = ? AND name = ?")
        .bind_optional(expires)
        .bind(checkpoint.run)
        .bind(checkpoint.kind)
        .bind(checkpoint.name)
        .run();
  });
}

std::vector<Checkpoint> Store::expired_checkpoints() {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare(std::string(kCheckpointColumns) + "WHERE expires <= ?");
  rows.bind(unix_seconds());
  std::vector<Checkpoint> all;
  while (rows.step()) all.push_back(checkpoint_in(rows));
  return all;
}

bool Store::add_sampler(const SamplerRow& sampler) {
  bool added = false;
  commits_.run([&](Database& database) {
    auto insert = database.prepare(
        "INSERT OR IGNORE INTO samplers(id, session, owner, model_path, folder, created, bytes) VALUES(?,?,?,?,?,?,?)");
    insert.bind(sampler.id).bind(sampler.session).bind(sampler.owner).bind(sampler.model_path).bind(sampler.folder);
    insert.bind(unix_seconds()).bind(sampler.bytes).run();
    added = database.changes() > 0;
  });
  return added;
}

std::optional<SamplerRow> Store::sampler(const std::string& id, const std::string& owner) {
  std::lock_guard lock(reading_);
  auto row = reader_.prepare("SELECT session, model_path, folder, bytes FROM samplers WHERE id = ? AND owner = ?");
  if (!row.bind(id).bind(owner).step()) return std::nullopt;
  return SamplerRow{id, row.text(0), owner, row.text(1), row.text(2), row.integer(3)};
}

std::vector<std::string> Store::samplers_of_session(const std::string& session) {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare("SELECT id FROM samplers WHERE session = ? ORDER BY created");
  return first_column(rows.bind(session));
}

std::vector<std::string> Store::drop_old_samplers(const std::string& session, int64_t kept) {
  std::vector<std::string> dropped;
  commits_.run([&](Database& database) {
    auto rows = database.prepare(
        "DELETE FROM samplers WHERE session = ?1 AND folder <> '' AND id NOT IN (SELECT id FROM samplers WHERE session = ?1 AND "
        "folder <> '' ORDER BY created DESC LIMIT ?2) RETURNING folder");
    dropped = first_column(rows.bind(session).bind(kept));
  });
  return dropped;
}

std::optional<std::vector<std::string>> Store::drop_samplers_to_fit(const std::string& owner, int64_t max_bytes, int64_t kept) {
  std::optional<std::vector<std::string>> dropped;
  commits_.run([&](Database& database) {
    std::vector<std::string> ids, folders;
    auto bytes = owned_bytes(database, owner);
    {
      auto rows = database.prepare(
          "SELECT id, folder, bytes FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY session ORDER BY created DESC) AS place "
          "FROM samplers WHERE owner = ? AND folder <> '') WHERE place > ? ORDER BY created");
      rows.bind(owner).bind(kept);
      while (bytes >= max_bytes && rows.step()) {
        ids.push_back(rows.text(0));
        folders.push_back(rows.text(1));
        bytes -= rows.integer(2);
      }
    }
    if (bytes >= max_bytes) return;
    for (const auto& id : ids) database.prepare("DELETE FROM samplers WHERE id = ?").bind(id).run();
    dropped = std::move(folders);
  });
  return dropped;
}

std::vector<std::string> Store::drop_samplers_older_than(double seconds) {
  std::vector<std::string> dropped;
  commits_.run([&](Database& database) {
    auto rows = database.prepare("DELETE FROM samplers WHERE folder <> '' AND created < ? RETURNING folder");
    dropped = first_column(rows.bind(unix_seconds() - seconds));
  });
  return dropped;
}

std::set<std::string> Store::folders() {
  std::lock_guard lock(reading_);
  auto rows = reader_.prepare(
      "SELECT folder FROM checkpoints UNION SELECT folder FROM samplers UNION SELECT snapshot FROM runs WHERE unloaded = 0");
  auto named = first_column(rows);
  return {named.begin(), named.end()};
}

}  // namespace hone::tinker
