// SQLite: a file, statements, transactions. Not thread-safe; store.h and group_commit.h serialize access.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

struct sqlite3;
struct sqlite3_stmt;

namespace hone::tinker {

class Database;

// A prepared statement with its values bound in order. Values are never part of the SQL text.
class Statement {
 public:
  ~Statement();  // its database keeps it for the next use of the same SQL
  Statement(const Statement&) = delete;

  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bind(const char* text) { return bind(std::string_view(text)); }
  Statement& bind_blob(std::string_view bytes);  // not copied: they outlive the statement
  Statement& bind_blob(std::string&&) = delete;
  Statement& bind_optional(std::optional<double> value);

  bool step();  // true: a row is there
  void run() {
    while (step()) {
    }
  }  // to its end
  int64_t integer(int column) const;
  double real(int column) const;
  std::optional<double> optional_real(int column) const;
  std::string text(int column) const;  // of blobs as well; "" for null

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}
  void check(int status) const;
  Database& database_;
  sqlite3_stmt* statement_;
  int bound_ = 0;
};

class Database {
 public:
  // Created if missing. Throws UserError if it cannot be opened.
  explicit Database(const std::filesystem::path& file);
  ~Database();
  Database(const Database&) = delete;

  // SQL is parsed once: statements outlive their use.
  Statement prepare(const std::string& sql);
  void execute(const char* sql);
  int64_t changes() const;      // rows that the last statement changed
  bool in_transaction() const;  // SQLite itself ends one that meets a full disk

 private:
  friend class Statement;
  void check(int status) const;
  void keep(sqlite3_stmt* statement);
  sqlite3* handle_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> idle_;  // by SQL
};

// A transaction: rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) { database_.execute("BEGIN IMMEDIATE"); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool done_ = false;
};

}  // namespace hone::tinker
