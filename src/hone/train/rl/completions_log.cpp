#include "hone/train/rl/completions_log.h"

#include <charconv>
#include <fstream>
#include <optional>

#include "hone/base/error.h"

namespace hone::train::rl {
namespace {

// The step of a line; none for a line left incomplete by a killed run.
std::optional<int64_t> step_of_line(const std::string& line) {
  auto table = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!table.is_object() || !table.contains("step") || !table["step"].is_array() || table["step"].empty()) return std::nullopt;
  const auto& first = table["step"].front();
  if (!first.is_string()) return std::nullopt;
  const auto& digits = first.get_ref<const std::string&>();
  int64_t step = 0;
  auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return problem == std::errc() ? std::optional(step) : std::nullopt;
}

}  // namespace

void CompletionsLog::truncate_to(int64_t step) const {
  std::ifstream file(path_, std::ios::binary);
  if (!file) return;
  std::uintmax_t position = 0, keep = 0;
  for (std::string line; std::getline(file, line);) {
    position += line.size() + 1;
    if (auto written = step_of_line(line); written && *written < step && !file.eof()) keep = position;
  }
  file.close();
  fs::resize_file(path_, keep);
}

void CompletionsLog::append(const Json& table) const {
  std::ofstream file(path_, std::ios::app);
  file << table.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  if (!file.flush())
    throw UserError(ExitCode::out_of_space, fmt::format("{} cannot be written", path_.string()),
                    "free space, or leave `log_completions` out");
}

}  // namespace hone::train::rl
