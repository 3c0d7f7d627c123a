#include "hone/io/newest_checkpoint.h"

#include <charconv>
#include <functional>
#include <string_view>

namespace hone::io {
namespace {

// The entry with the highest number.
std::optional<fs::path> highest_numbered(const fs::path& folder,
                                         const std::function<std::optional<int64_t>(const fs::path&)>& number_of) {
  std::optional<fs::path> found;
  int64_t highest = -1;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (auto number = number_of(entry.path()); number && *number > highest) highest = *number, found = entry.path();
  return found;
}

// N of "<prefix>N" and the rest.
std::optional<std::pair<int64_t, std::string_view>> number_after(std::string_view prefix, std::string_view name) {
  int64_t number = 0;
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto [end, status] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  if (status != std::errc() || number < 0) return std::nullopt;
  return std::pair(number, name.substr(static_cast<size_t>(end - name.data())));
}

bool is_loadable(const fs::path& folder) {
  std::error_code absent;
  return fs::exists(folder / "adapter_config.json", absent) || fs::exists(folder / "config.json", absent);
}

// If two runs share a folder, the later one may have fewer steps: its symlink names the checkpoint.
std::optional<fs::path> newest_of_run(const fs::path& run) {
  std::error_code absent;
  if (auto last = fs::read_symlink(run / "last", absent);
      !absent && last == last.filename() && checkpoint_step(last) && is_loadable(run / last))
    return run / last;
  return highest_numbered(run,
                          [](const fs::path& folder) { return is_loadable(folder) ? checkpoint_step(folder) : std::nullopt; });
}

}  // namespace

std::optional<int64_t> checkpoint_step(const fs::path& folder) {
  const auto name = folder.filename().string();
  const auto found = number_after("checkpoint-", name);
  return found && found->second.empty() ? std::optional(found->first) : std::nullopt;
}

std::optional<fs::path> newest_checkpoint_in(const fs::path& folder) {
  if (auto newest = newest_of_run(folder)) return newest;
  auto run = highest_numbered(folder, [](const fs::path& version) -> std::optional<int64_t> {
    const auto name = version.filename().string();
    const auto found = number_after("v", name);
    return found && newest_of_run(version) ? std::optional(found->first) : std::nullopt;
  });
  return run ? newest_of_run(*run) : std::nullopt;
}

}  // namespace hone::io
