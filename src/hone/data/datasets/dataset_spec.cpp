#include "hone/data/datasets/dataset_spec.h"

#include <charconv>
#include <filesystem>

#include "hone/base/error.h"
#include "hone/base/strings/lower_case.h"
#include "hone/base/strings/trimmed.h"

namespace hone::data {
namespace {

bool is_on_disk(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && std::filesystem::exists(path, ignored);
}

int64_t parse_count(const std::string& text, const std::string& word) {
  int64_t count = 0;
  auto digits = trimmed(text);
  auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  constexpr int64_t kMostRows = 100'000'000;
  if (count > kMostRows)
    throw UserError(ExitCode::usage,
                    fmt::format("`dataset` {}: {} rows after #; at most {} are drawn from one dataset", word, count, kMostRows),
                    "more passes over the rows are `num_train_epochs`");
  if (status != std::errc() || end != digits.data() + digits.size() || count <= 0)
    throw UserError(ExitCode::usage, fmt::format("`dataset` {}: \"{}\" after # is not a row count", word, text),
                    "write a positive number, as in train.jsonl#500");
  return count;
}

}  // namespace

DatasetSpec parse_dataset_spec(const std::string& word) {
  DatasetSpec parsed;
  std::string rest = word;
  if (!is_on_disk(rest)) {
    if (auto at = rest.find("::"); at != rest.npos) {
      auto hub = lower_case(rest.substr(0, at));
      if (hub == "hf" || hub == "ms") parsed.hub = hub;
      rest = rest.substr(at + 2);
    }
  }
  if (!is_on_disk(rest)) {
    if (auto at = rest.rfind('#'); at != rest.npos) {
      parsed.sample = parse_count(rest.substr(at + 1), word);
      rest = rest.substr(0, at);
    }
  }
  if (!is_on_disk(rest)) {
    if (auto at = rest.find(':'); at != rest.npos) {
      for (size_t from = at + 1; from <= rest.size();) {
        auto slash = std::min(rest.find('/', from), rest.size());
        if (auto subset = trimmed(rest.substr(from, slash - from)); !subset.empty()) parsed.subsets.push_back(subset);
        from = slash + 1;
      }
      rest = rest.substr(0, at);
    }
  }
  parsed.name = trimmed(rest);
  if (parsed.name.empty())
    throw UserError(ExitCode::usage, fmt::format("`dataset` \"{}\" names nothing", word), "give a file, a folder or an id");
  return parsed;
}

}  // namespace hone::data
