#include "hone/eval/tasks/find_tasks.h"

#include <algorithm>
#include <map>
#include <set>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/edit_distance.h"

namespace hone::eval {
namespace {

constexpr int kDeepestInclude = 8;

// A task file's settings merged over those it includes.
Json read_settings(const fs::path& file, int depth = 0) {
  if (depth > kDeepestInclude)
    throw UserError(ExitCode::bad_data,
                    fmt::format("{}: files include each other more than {} deep", file.string(), kDeepestInclude));
  auto own = parse_yaml(read_file(file)).or_throw(ExitCode::bad_data, file.string());
  if (!own.is_object())
    throw UserError(ExitCode::bad_data, fmt::format("{}: found {}; expected a task's settings", file.string(), own.type_name()));
  Json settings = Json::object();
  if (own.contains("include"))
    for (const auto& other : own["include"].is_array() ? own["include"] : Json::array({own["include"]})) {
      if (!other.is_string()) throw UserError(ExitCode::bad_data, file.string() + ": include names files");
      fs::path path = other.get<std::string>();
      settings.update(read_settings(path.is_absolute() ? path : file.parent_path() / path, depth + 1));
    }
  own.erase("include");
  settings.update(own);
  return settings;
}

bool is_task_file(const fs::path& file) { return file.extension() == ".yaml" || file.extension() == ".yml"; }

struct Found {
  Json settings;
  fs::path file;
};

class TaskIndex {
 public:
  void add_file(const fs::path& file) {
    if (!files_.insert(fs::weakly_canonical(file)).second) return;
    auto settings = read_settings(file);
    auto name_of = [&](const char* key) {
      return settings.contains(key) && settings[key].is_string() ? settings[key].get<std::string>() : "";
    };
    if (auto group = name_of("group"); !group.empty() && settings.contains("task") && settings["task"].is_array())
      groups_[group] = {settings, file};
    else if (auto task = name_of("task"); !task.empty())
      tasks_[task] = {settings, file}, order_.push_back(task);
    if (settings.contains("tag"))
      for (const auto& tag : settings["tag"].is_array() ? settings["tag"] : Json::array({settings["tag"]}))
        if (tag.is_string()) tags_[tag.get<std::string>()].push_back(name_of("task"));
  }
  void add_folder(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file() && is_task_file(entry.path())) files.push_back(entry.path());
    std::ranges::sort(files);
    for (const auto& file : files) try {
        add_file(file);
      } catch (const UserError& problem) {
        log::debug("{} is left out: {}", file.string(), problem.what());
      }
  }
  std::string name_in(const fs::path& file) const {
    for (const auto* all : {&tasks_, &groups_})
      for (const auto& [name, found] : *all)
        if (fs::weakly_canonical(found.file) == fs::weakly_canonical(file)) return name;
    throw UserError(ExitCode::bad_data, fmt::format("{}: names neither a task nor a group", file.string()),
                    "expected task: name with its settings, or group: name with a list of tasks");
  }
  const std::vector<std::string>& names() const { return order_; }

  // Adds the task, the group with its members, or the tasks with that tag.
  bool expand(const std::string& name, TaskSet& set, int depth = 0) const {
    if (auto task = tasks_.find(name); task != tasks_.end()) {
      bool known = std::ranges::any_of(set.tasks, [&](const Task& other) { return other.name == name; });
      if (!known)
        set.tasks.push_back(make_task(task->second.settings, task->second.file.string(), task->second.file.parent_path()));
      return true;
    }
    if (auto group = groups_.find(name); group != groups_.end() && depth < kDeepestInclude) {
      auto made = make_group(group->second.settings, group->second.file.string());
      for (const auto& member : made.members)
        if (!expand(member, set, depth + 1))
          throw UserError(ExitCode::bad_data, fmt::format("{}: there is no task {}", group->second.file.string(), member),
                          "its file must be in the same folder, or in `include_path`");
      set.groups.push_back(std::move(made));
      return true;
    }
    auto tag = tags_.find(name);
    if (tag == tags_.end()) return false;
    for (const auto& member : tag->second) expand(member, set, depth + 1);
    return true;
  }

 private:
  std::map<std::string, Found> tasks_, groups_;
  std::map<std::string, std::vector<std::string>> tags_;
  std::vector<std::string> order_;
  std::set<fs::path> files_;
};

}  // namespace

TaskSet find_tasks(const std::vector<std::string>& names, const TaskSource& source) {
  TaskIndex included;
  for (const auto& path : source.include_paths) {
    if (!fs::is_directory(path))
      throw UserError(ExitCode::usage, fmt::format("`include_path` {}: there is no such folder", path.string()));
    included.add_folder(path);
  }
  TaskSet set;
  for (const auto& name : names) {
    fs::path path = name;
    if (fs::is_directory(path)) {
      TaskIndex here;
      here.add_folder(path);
      for (const auto& task : here.names()) here.expand(task, set);
      if (here.names().empty() && !add_benchmark(name, source, set))  // a benchmark's data may be in a folder of its name
        throw UserError(
            ExitCode::usage, fmt::format("the folder {} has no task file (.yaml) that can be read", name),
            fmt::format("expected a benchmark, one of {}; `eval_dataset_args` '{{\"gsm8k\": {{\"local_path\": \"{}\"}}}}' "
                        "names the folder of its data",
                        fmt::join(known_benchmarks(), ", "), name));
    } else if (fs::is_regular_file(path) && is_task_file(path)) {
      TaskIndex here;
      here.add_file(path);
      if (read_settings(path).contains("group")) here.add_folder(fs::absolute(path).parent_path());
      here.expand(here.name_in(path), set);
    } else if (!included.expand(name, set) && !add_benchmark(name, source, set)) {
      const auto known = known_benchmarks();
      const std::vector<std::string_view> names_known(known.begin(), known.end());
      const auto near = nearest_word(name, names_known);
      if (is_task_file(path)) throw UserError(ExitCode::usage, fmt::format("{}: there is no such file", name), "check the path");
      throw UserError(ExitCode::usage, fmt::format("there is no benchmark {}", name),
                      fmt::format("{}expected a task file (.yaml), a task in `include_path`, or one of {}",
                                  near.empty() ? "" : fmt::format("did you mean {}; ", near), fmt::join(known, ", ")));
    }
  }
  if (set.tasks.empty()) throw UserError(ExitCode::usage, "no task was found to run");
  return set;
}

}  // namespace hone::eval
