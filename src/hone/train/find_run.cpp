#include "hone/train/find_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <random>

#include "hone/base/log.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/checkpoints/checkpoint_assets.h"

namespace hone::train {
namespace {

// Output paths and resume settings: no step depends on them.
constexpr std::array<std::string_view, 18> kNoMatter{"output_dir",        "resume_from_checkpoint",
                                                     "add_version",       "overwrite_output_dir",
                                                     "logging_dir",       "run_name",
                                                     "load_args",         "load_data_args",
                                                     "show_config",       "log_level",
                                                     "log_format",        "config",
                                                     "disable_tqdm",      "dataset",
                                                     "val_dataset",       "ignore_data_skip",
                                                     "resume_only_model", "dataloader_num_workers"};

double seconds_of(const fs::path& manifest) {
  struct stat info {};
  return ::stat(manifest.c_str(), &info) == 0
             ? static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) * 1e-9
             : 0;
}

std::vector<fs::path> with_versions(const fs::path& folder) {
  std::vector<fs::path> folders{folder};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    auto name = entry.path().filename().string();
    if (name.size() > 1 && name[0] == 'v' && std::isdigit(static_cast<unsigned char>(name[1])) && entry.is_directory(ignored))
      folders.push_back(entry.path());
  }
  return folders;
}

void add_runs(const fs::path& folder, std::vector<FoundRun>& runs) {
  const auto before = static_cast<std::ptrdiff_t>(runs.size());
  for (const auto& [step, checkpoint] : checkpoints_newest_first(folder)) {
    auto manifest = read_manifest(checkpoint);
    if (!manifest) {
      log::warning("{} is skipped: {}", checkpoint.string(), manifest.error());
      continue;
    }
    double saved_at = manifest->saved_at > 0 ? manifest->saved_at : seconds_of(checkpoint / "manifest.json");
    auto known = std::find_if(runs.begin() + before, runs.end(), [&](const FoundRun& run) { return run.id == manifest->run_id; });
    if (known == runs.end())
      runs.push_back({folder, manifest->run_id, manifest->trains_on, saved_at, checkpoint});
    else
      known->saved_at = std::max(known->saved_at, saved_at);
  }
}

// Some options became lists: "full_shard auto_wrap" of an older version is ["full_shard", "auto_wrap"], and null is an empty
// list.
bool is_same_setting(const Json& before, const Json& now) {
  if (before == now || !now.is_array() || !(before.is_string() || before.is_null())) return before == now;
  std::string words;
  for (const auto& word : now) words += (words.empty() ? "" : " ") + (word.is_string() ? word.get<std::string>() : word.dump());
  return words == (before.is_null() ? "" : before.get<std::string>());
}

std::string shown_setting(const Json& value) {
  if (value.is_null()) return "unset";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());  // 500, not 500.0
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

std::vector<FoundRun> runs_in(const fs::path& folder) {
  std::vector<FoundRun> runs;
  for (const auto& location : with_versions(folder)) add_runs(location, runs);
  std::stable_sort(runs.begin(), runs.end(), [](const FoundRun& a, const FoundRun& b) { return a.saved_at > b.saved_at; });
  return runs;
}

std::vector<std::string> changed_settings(const fs::path& checkpoint, const Json& settings) {
  std::error_code ignored;
  std::vector<std::string> changes;
  if (!fs::is_regular_file(checkpoint / "args.json", ignored)) return changes;
  auto kept = parse_json(read_file(checkpoint / "args.json"));
  if (!kept || !kept->is_object()) return changes;
  for (const auto& [name, before] : kept->items()) {
    auto now = settings.find(name);
    bool copied = name == "template" && before == kTemplateFile;
    if (now == settings.end() || is_same_setting(before, *now) || copied || std::ranges::find(kNoMatter, name) != kNoMatter.end())
      continue;
    changes.push_back(fmt::format("`{}` was {} and is now {}", name, shown_setting(before), shown_setting(*now)));
  }
  return changes;
}

std::optional<fs::path> find_checkpoint(const fs::path& folder, const RunSubject& subject) {
  auto runs = runs_in(folder);
  for (const auto& run : runs)
    if (!run.trains_on.empty() && run.trains_on != subject.trains_on)
      log::warning(
          "{} is skipped: it belongs to another run (other model, data or tuner); name it in `resume_from_checkpoint` to "
          "continue it",
          run.newest.string());
  std::erase_if(runs, [&](const FoundRun& run) { return !run.trains_on.empty() && run.trains_on != subject.trains_on; });
  std::ranges::stable_sort(runs, {}, [&](const FoundRun& run) { return changed_settings(run.newest, subject.settings).size(); });
  for (const auto& run : runs)
    if (auto newest = newest_checkpoint(run.folder, run.id)) return newest;
  return std::nullopt;
}

std::optional<fs::path> newest_of_any(const fs::path& folder) {
  for (const auto& run : runs_in(folder))
    if (auto newest = newest_checkpoint(run.folder, run.id)) return newest;
  return std::nullopt;
}

std::string fresh_run_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", static_cast<uint32_t>(device()), static_cast<uint32_t>(device()));
}

std::string id_to_continue(const fs::path& checkpoint) {
  auto manifest = read_manifest(checkpoint);
  // Earlier versions gave all runs of the same objective one id.
  if (!manifest || manifest->run_id.empty() || manifest->run_id == manifest->trains_on) return fresh_run_id();
  for (const auto& [step, other] : checkpoints_newest_first(fs::absolute(checkpoint).lexically_normal().parent_path())) {
    if (step <= manifest->step) break;
    if (auto later = read_manifest(other); later && later->run_id == manifest->run_id) return fresh_run_id();
  }
  return manifest->run_id;
}

}  // namespace hone::train
