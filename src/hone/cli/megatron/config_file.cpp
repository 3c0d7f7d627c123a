// Options in a file: the first word of a command, or --config. Files for Ray give each role (train, rollout, teacher) a section.
#include <set>

#include "hone/base/error.h"
#include "hone/cli/megatron/given_options.h"
#include "hone/cli/megatron/megatron.h"

namespace hone::cli {
namespace {

bool names_file(std::string_view word) { return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json"); }

// Removes the file from `words` and returns its path; empty: there is none.
std::string take_config_path(std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--config";
  for (size_t i = 1; i < words.size(); ++i) {
    const bool first = i == 1 && names_file(words[i]), named = words[i] == kOption && i + 1 < words.size();
    const bool joined = words[i].starts_with(kOption) && words[i].substr(kOption.size()).starts_with("=");
    if (!first && !named && !joined) continue;
    auto path = named ? words[i + 1] : joined ? words[i].substr(kOption.size() + 1) : words[i];
    const auto begin = words.begin() + static_cast<ptrdiff_t>(i);
    words.erase(begin, begin + (named ? 2 : 1));
    return path;
  }
  return "";
}

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

class MegatronFile {
 public:
  MegatronFile(std::string path, std::vector<std::string> words, const SystemAccess& system)
      : path_(std::move(path)), system_(system), result_{std::move(words), {}} {
    for (const auto& option : read_given(result_.words)) given_.insert(option.name);
    for (auto& entry : read_entries(path_, system_.read_file(path_))) values_[underscored(entry.key)] = std::move(entry.value);
  }

  MegatronWords words() {
    for (const auto& [name, value] : values_.items()) {
      if (name == "ENV" && value.is_object())
        for (const auto& [variable, setting] : value.items()) set_variable(variable, word_of(setting));
      else if (is_role(name, value))
        add_role(name, value);
      else if (name != "colocate_groups")
        add(name, value);
    }
    return std::move(result_);
  }

 private:
  static bool is_role(std::string_view name, const Json& value) {
    return value.is_object() && (name == "train" || name == "rollout" || name == "teacher");
  }

  void set_variable(const std::string& name, const std::string& value) {
    if (!system_.environment(name)) result_.environment.emplace_back(name, value);
  }

  // Options of the command line take precedence.
  void add(const std::string& name, const Json& value) {
    if (given_.contains(name) || value.is_null() || (value.is_array() && value.empty())) return;
    result_.words.push_back("--" + name);
    if (!value.is_array()) return result_.words.push_back(word_of(value));
    for (const auto& each : value) result_.words.push_back(word_of(each));
  }

  // Rollouts and a teacher run in the training processes, unless they are servers.
  void add_role(const std::string& role, const Json& settings) {
    const auto devices = settings.value("gpus", Json(0));
    const auto count = devices.is_number_integer() ? devices.get<int64_t>() : 0;
    if (role == "train") {
      if (count > 0 && !system_.environment("RANK")) set_variable("NPROC_PER_NODE", std::to_string(count));
    } else if (count > 0 && !shares_training_devices(role)) {
      throw UserError(ExitCode::usage, fmt::format("{}: {} has {} devices of its own", path_, role, count),
                      role == "rollout" ? "start hone rollout --model … there and name it with vllm_mode: server and "
                                          "vllm_server_host; or share devices with colocate_groups: [[train, rollout]]"
                                        : "start hone deploy --model … there and name it with teacher_model_server; or load it "
                                          "into the run with teacher_model");
    }
    for (const auto& [name, value] : settings.items())
      if (name != "gpus") add(role == "teacher" && name == "model" ? "teacher_model" : underscored(name), value);
  }

  bool shares_training_devices(const std::string& role) const {
    for (const auto& group : values_.value("colocate_groups", Json::array())) {
      bool has_role = false, has_training = false;
      for (const auto& name : group) has_role |= name == role, has_training |= name == "train";
      if (has_role && has_training) return true;
    }
    return false;
  }

  std::string path_;
  const SystemAccess& system_;
  MegatronWords result_;
  std::set<std::string> given_;
  Json values_ = Json::object();
};

}  // namespace

MegatronWords with_megatron_file(std::vector<std::string> words, const SystemAccess& system) {
  if (!is_megatron_command(words)) return {std::move(words), {}};
  auto path = take_config_path(words);
  if (path.empty()) return {std::move(words), {}};
  return MegatronFile(std::move(path), std::move(words), system).words();
}

}  // namespace hone::cli
