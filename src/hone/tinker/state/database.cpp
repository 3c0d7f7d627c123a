#include "hone/tinker/state/database.h"

#include <sqlite3.h>

#include <cerrno>

#include "hone/base/error.h"
#include "hone/base/log.h"

namespace hone::tinker {

namespace {

// A quota is an I/O error of the system's, as a defective disk is.
ExitCode exit_code_of_status(sqlite3* handle, int status) {
  const int system = status == SQLITE_IOERR ? sqlite3_system_errno(handle) : 0;
  const bool is_full = status == SQLITE_FULL || system == ENOSPC || system == EDQUOT;
  return is_full ? ExitCode::out_of_space : ExitCode::failure;
}

}  // namespace

Statement::~Statement() { database_.keep(statement_); }

void Statement::check(int status) const { database_.check(status); }

Statement& Statement::bind(int64_t value) {
  check(sqlite3_bind_int64(statement_, ++bound_, value));
  return *this;
}

Statement& Statement::bind(double value) {
  check(sqlite3_bind_double(statement_, ++bound_, value));
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  check(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind_blob(std::string_view bytes) {
  check(sqlite3_bind_blob64(statement_, ++bound_, bytes.data(), bytes.size(), SQLITE_STATIC));
  return *this;
}

Statement& Statement::bind_optional(std::optional<double> value) {
  if (value) return bind(*value);
  check(sqlite3_bind_null(statement_, ++bound_));
  return *this;
}

bool Statement::step() {
  const int status = sqlite3_step(statement_);
  check(status);
  return status == SQLITE_ROW;
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::optional<double> Statement::optional_real(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return real(column);
}

std::string Statement::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : std::string();
}

Database::Database(const std::filesystem::path& file) {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(file.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
    std::string why = handle_ ? sqlite3_errmsg(handle_) : "no memory";
    sqlite3_close(handle_);
    throw UserError(ExitCode::usage, fmt::format("{}: {}", file.string(), why), "name a folder that can be written");
  }
  sqlite3_busy_timeout(handle_, 30'000);
  execute("PRAGMA journal_mode=WAL");
  execute("PRAGMA synchronous=FULL");  // acknowledged data are on disk
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

void Database::check(int status) const {
  if (status == SQLITE_OK || status == SQLITE_ROW || status == SQLITE_DONE) return;
  throw UserError(exit_code_of_status(handle_, status), fmt::format("SQLite: {}", sqlite3_errmsg(handle_)));
}

Statement Database::prepare(const std::string& sql) {
  if (auto idle = idle_.extract(sql)) return {*this, idle.mapped()};
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v3(handle_, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  return {*this, statement};
}

// Reset ends its transaction, and cleared bindings free their copies. A second statement of the same SQL is not kept.
void Database::keep(sqlite3_stmt* statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (!idle_.emplace(sqlite3_sql(statement), statement).second) sqlite3_finalize(statement);
}

void Database::execute(const char* sql) {
  char* message = nullptr;
  const int status = sqlite3_exec(handle_, sql, nullptr, nullptr, &message);
  if (status == SQLITE_OK) return;
  std::string why = message ? message : sqlite3_errmsg(handle_);
  sqlite3_free(message);
  throw UserError(exit_code_of_status(handle_, status), "SQLite: " + why);
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

int64_t Database::changes() const { return sqlite3_changes64(handle_); }

Transaction::~Transaction() {
  if (done_ || !database_.in_transaction()) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const std::exception& problem) {
    log::error("{}", problem.what());
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  done_ = true;
}

}  // namespace hone::tinker
