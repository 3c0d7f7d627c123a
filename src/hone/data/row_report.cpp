#include "hone/data/row_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "hone/base/log.h"

namespace hone::data {
namespace {

constexpr std::array<std::string_view, 13> kNames = {"broken JSON",   "bad encoding",        "missing columns", "wrong type",
                                                     "unknown role",  "roles out of order",  "empty response",  "row too long",
                                                     "duplicate key", "bad preference pair", "unreadable file", "media",
                                                     "other"};

struct RowPosition {
  std::string_view file;
  int64_t line = 0;
  auto operator<=>(const RowPosition&) const = default;
};

// "train.jsonl:12: wrong type: …"; a path may contain colons.
RowPosition position_of(std::string_view message) {
  for (size_t colon = message.find(':'); colon != message.npos; colon = message.find(':', colon + 1)) {
    size_t end = colon + 1;
    while (end < message.size() && message[end] >= '0' && message[end] <= '9') ++end;
    if (end == colon + 1 || end == message.size() || message[end] != ':') continue;
    RowPosition position{message.substr(0, colon)};
    std::from_chars(message.data() + colon + 1, message.data() + end, position.line);
    return position;
  }
  return {message};
}

// Key that groups similar errors: the message without its location, numbers and parsed text.
std::string sort_of(std::string_view message) {
  auto position = position_of(message);
  auto rest = position.line > 0 || position.file.size() < message.size()
                  ? message.substr(message.find(": ", position.file.size()))
                  : message;
  rest = rest.substr(0, rest.find("; last read: "));
  std::string key;
  for (char c : rest) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit)
      key += c;
    else if (key.empty() || key.back() != '#')
      key += '#';
  }
  return key;
}

constexpr size_t kNextPositions = 3;

}  // namespace

std::string_view name(RowProblem problem) { return kNames[static_cast<size_t>(problem)]; }

Error row_error(RowProblem problem, std::string_view origin, std::string_view details) {
  return error("{}: {}: {}", origin, name(problem), details);
}

RowProblem problem_of(std::string_view message) {
  size_t earliest = std::string_view::npos, found = kNames.size() - 1;
  for (size_t i = 0; i + 1 < kNames.size(); ++i) {
    auto at = message.find(fmt::format(": {}: ", kNames[i]));
    if (at < earliest) earliest = at, found = i;
  }
  return static_cast<RowProblem>(found);
}

bool stands_before(std::string_view a, std::string_view b) { return position_of(a) < position_of(b); }

void RowReport::bad_row(const std::string& message) {
  if (strict_) throw UserError(ExitCode::bad_data, message, "fix the row, or skip such rows with `strict` false");
  std::lock_guard lock(mutex_);
  ++counts_[problem_of(message)];
  auto key = sort_of(message);
  auto known = std::find_if(sorts_.begin(), sorts_.end(), [&](const Sort& sort) { return sort.key == key; });
  if (known == sorts_.end()) {
    if (sorts_.size() < kRemembered) sorts_.push_back({std::move(key), message, 1, {}});
    return;
  }
  ++known->count;
  if (known->next.size() >= kNextPositions) return;
  auto position = position_of(message);
  const bool same_file = position.file == position_of(known->first).file;
  known->next.push_back(same_file ? fmt::format("line {}", position.line) : fmt::format("{}:{}", position.file, position.line));
}

void RowReport::good_row(int64_t tokens, int64_t trained) {
  good_.fetch_add(1, std::memory_order_relaxed);
  tokens_.fetch_add(tokens, std::memory_order_relaxed);
  trained_.fetch_add(trained, std::memory_order_relaxed);
  for (auto most = longest_.load(); tokens > most && !longest_.compare_exchange_weak(most, tokens);) {
  }
}

int64_t RowReport::bad() const {
  std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [kind, count] : counts_) total += count;
  return total;
}

std::map<RowProblem, int64_t> RowReport::by_kind() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<std::string> RowReport::messages() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const auto& sort : sorts_) {
    lines.push_back(sort.first);
    if (sort.count > 1)
      lines.back() += fmt::format(" ({} rows like this; next {}{})", sort.count, fmt::join(sort.next, ", "),
                                  sort.count > static_cast<int64_t>(kNextPositions) + 1 ? ", …" : "");
  }
  return lines;
}

int64_t RowReport::unlisted() const {
  int64_t listed = 0, all = bad();
  std::lock_guard lock(mutex_);
  for (const auto& sort : sorts_) listed += sort.count;
  return all - listed;
}

std::string RowReport::summary() const {
  int64_t bad_rows = bad();
  if (bad_rows == 0) return "";
  std::string kinds;
  for (const auto& [kind, count] : by_kind()) kinds += fmt::format("{}{}: {}", kinds.empty() ? "" : ", ", name(kind), count);
  auto text = fmt::format("skipped {} of {} rows ({})", bad_rows, bad_rows + good(), kinds);
  for (const auto& message : messages()) text += "\n  " + message;
  if (auto more = unlisted(); more > 0) text += fmt::format("\n  … and {} more", more);
  return text;
}

void RowReport::log_summary() const {
  if (auto text = summary(); !text.empty()) log::warning("{}", text);
}

}  // namespace hone::data
