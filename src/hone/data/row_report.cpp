#include "hone/data/row_report.h"

#include <array>
#include <charconv>

#include "hone/base/log.h"

namespace hone::data {
namespace {

constexpr std::array<std::string_view, 13> kNames = {"broken JSON", "bad encoding", "missing columns",   "wrong type",
                                                     "unknown role", "roles out of order", "empty answer", "row too long",
                                                     "duplicate key", "bad preference pair", "unreadable file", "media", "other"};

struct Place {
  std::string_view file;
  int64_t line = 0;
  auto operator<=>(const Place&) const = default;
};

// "train.jsonl:12: wrong type: …"; a path may hold colons of its own.
Place place_of(std::string_view message) {
  for (size_t colon = message.find(':'); colon != message.npos; colon = message.find(':', colon + 1)) {
    size_t end = colon + 1;
    while (end < message.size() && message[end] >= '0' && message[end] <= '9') ++end;
    if (end == colon + 1 || end == message.size() || message[end] != ':') continue;
    Place place{message.substr(0, colon)};
    std::from_chars(message.data() + colon + 1, message.data() + end, place.line);
    return place;
  }
  return {message};
}

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

bool stands_before(std::string_view a, std::string_view b) { return place_of(a) < place_of(b); }

void RowReport::bad_row(const std::string& message) {
  if (strict_) throw UserError(ExitCode::bad_data, message, "mend the row, or skip such rows with --strict false");
  std::lock_guard lock(mutex_);
  ++counts_[problem_of(message)];
  if (first_.size() < kRemembered) first_.push_back(message);
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

std::vector<std::string> RowReport::first_messages() const {
  std::lock_guard lock(mutex_);
  return first_;
}

std::string RowReport::summary() const {
  int64_t bad_rows = bad();
  if (bad_rows == 0) return "";
  std::string kinds;
  for (const auto& [kind, count] : by_kind()) kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, name(kind));
  auto text = fmt::format("skipped {} of {} rows: {}", bad_rows, bad_rows + good(), kinds);
  auto messages = first_messages();
  for (const auto& message : messages) text += "\n  " + message;
  if (bad_rows > static_cast<int64_t>(messages.size())) text += fmt::format("\n  … and {} more", bad_rows - messages.size());
  return text;
}

void RowReport::log_summary() const {
  if (auto text = summary(); !text.empty()) log::warning("{}", text);
}

}  // namespace hone::data
