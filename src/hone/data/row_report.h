// Counts invalid rows by kind and keeps the first ten in full. No row is dropped without being counted here.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"

namespace hone::data {

// The message of an invalid row has the form "file:line: kind: found; expected".
enum class RowProblem {
  json,
  encoding,
  columns,
  type,
  role,
  order,
  empty_response,
  too_long,
  duplicate_key,
  preference,
  file,
  media,
  other
};
std::string_view name(RowProblem problem);
Error row_error(RowProblem problem, std::string_view origin, std::string_view details);
// The kind of a message; `other` for messages not made by row_error.
RowProblem problem_of(std::string_view message);
// Whether the row of message `a` comes before that of `b`: files by name, lines by number.
bool stands_before(std::string_view a, std::string_view b);

class RowReport {
 public:
  static constexpr size_t kRemembered = 10;

  explicit RowReport(bool strict = false) : strict_(strict) {}
  // Thread-safe. Strict: throws UserError(bad_data) with the message.
  void bad_row(const std::string& message);
  // `tokens`, of which `trained` have labels, if the full dataset is scanned before the run.
  void good_row(int64_t tokens = 0, int64_t trained = 0);

  int64_t good() const { return good_.load(std::memory_order_relaxed); }
  int64_t bad() const;
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }
  int64_t trained_tokens() const { return trained_.load(std::memory_order_relaxed); }
  int64_t longest() const { return longest_.load(std::memory_order_relaxed); }  // row, in tokens
  std::map<RowProblem, int64_t> by_kind() const;
  // The first message of each kind of error, with the number of affected rows and the next locations.
  std::vector<std::string> messages() const;
  int64_t unlisted() const;  // bad rows of sorts beyond the remembered ones
  // "skipped 3 of 1000 rows: 2 json, 1 role" and the messages, one per line; empty if nothing was wrong.
  std::string summary() const;
  void log_summary() const;

 private:
  const bool strict_;
  std::atomic<int64_t> good_{0}, tokens_{0}, trained_{0}, longest_{0};
  mutable std::mutex mutex_;
  std::map<RowProblem, int64_t> counts_;
  struct Sort {
    std::string key, first;
    int64_t count = 0;
    std::vector<std::string> next;  // where the next few are
  };
  std::vector<Sort> sorts_;
};

}  // namespace hone::data
