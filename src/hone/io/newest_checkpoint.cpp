#include "hone/io/newest_checkpoint.h"

#include <cctype>
#include <cstdlib>
#include <functional>

namespace hone::io {
namespace {

// The entry "<prefix>N…" with the highest N among those that `counts`.
std::optional<fs::path> highest_numbered(const fs::path& folder, std::string_view prefix,
                                         const std::function<bool(const fs::path&)>& counts) {
  std::optional<fs::path> found;
  long highest = -1;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() == prefix.size() ||
        !std::isdigit(static_cast<unsigned char>(name[prefix.size()])) || !counts(entry.path()))
      continue;
    if (long number = std::strtol(name.c_str() + prefix.size(), nullptr, 10); number > highest)
      highest = number, found = entry.path();
  }
  return found;
}

bool is_loadable(const fs::path& folder) {
  std::error_code absent;
  return fs::exists(folder / "adapter_config.json", absent) || fs::exists(folder / "config.json", absent);
}

// Of two runs in one folder the later may have come less far: its link says where it is.
std::optional<fs::path> newest_of_run(const fs::path& run) {
  std::error_code absent;
  if (auto last = fs::read_symlink(run / "last", absent);
      !absent && last == last.filename() && last.string().starts_with("checkpoint-") && is_loadable(run / last))
    return run / last;
  return highest_numbered(run, "checkpoint-", [](const fs::path& folder) {
    return folder.string().find(".partial") == std::string::npos && is_loadable(folder);
  });
}

}  // namespace

std::optional<fs::path> newest_checkpoint_in(const fs::path& folder) {
  if (auto newest = newest_of_run(folder)) return newest;
  auto run = highest_numbered(folder, "v", [](const fs::path& version) { return newest_of_run(version).has_value(); });
  return run ? newest_of_run(*run) : std::nullopt;
}

}  // namespace hone::io
