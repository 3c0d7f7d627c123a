#include "hone/cli/accelerate.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "hone/base/error.h"
#include "hone/base/json.h"

namespace hone::cli {
namespace {

constexpr std::array<std::string_view, 13> kBareOptions = {
    "--multi_gpu", "--cpu",   "--mps",       "--tpu",          "--use_deepspeed",      "--use_fsdp",  "--quiet",
    "-q",          "--debug", "--no_python", "--same_network", "--dynamo_use_dynamic", "--standalone"};
// Options that set the number of processes, the devices, the precision and the sharding of the model.
constexpr std::array<std::string_view, 9> kKept = {"config_file",     "num_processes",   "num_machines",
                                                   "machine_rank",    "main_process_ip", "main_process_port",
                                                   "mixed_precision", "use_fsdp",        "cpu"};

// What torchrun and deepspeed call them. Their number of processes is that of one machine.
constexpr std::pair<std::string_view, std::string_view> kLauncherNames[] = {{"nproc_per_node", "processes_per_machine"},
                                                                            {"num_gpus", "processes_per_machine"},
                                                                            {"nnodes", "num_machines"},
                                                                            {"num_nodes", "num_machines"},
                                                                            {"node_rank", "machine_rank"},
                                                                            {"master_addr", "main_process_ip"},
                                                                            {"master_port", "main_process_port"}};

bool is_script(std::string_view word) { return word.ends_with(".py"); }

// "sft" of swift/cli/sft.py and of swift.cli.sft; empty for other programs.
std::string swift_command(std::string_view script) {
  for (const auto& [folder, end] : {std::pair<std::string_view, std::string_view>{"swift/cli/", ".py"}, {"swift.cli.", ""}}) {
    const auto at = script.rfind(folder);
    if (at == script.npos || !script.ends_with(end)) continue;
    const auto name = script.substr(at + folder.size(), script.size() - at - folder.size() - end.size());
    if (name.find_first_of("/.") == name.npos) return std::string(name);
  }
  return "";
}

template <class Container>
bool contains(const Container& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class LaunchLine {
 public:
  // Consumes the option at `i` and its value, if any; returns the index of the last argument consumed.
  size_t take(const std::vector<std::string>& words, size_t i) {
    std::string name = words[i].substr(std::min<size_t>(2, words[i].size())), value = "true";
    auto equals = name.find('=');
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (!contains(kBareOptions, words[i]) && i + 1 < words.size()) {
      value = words[++i];
    }
    std::replace(name.begin(), name.end(), '-', '_');
    for (const auto& [theirs, ours] : kLauncherNames)
      if (name == theirs) name = ours;
    if (name == "processes_per_machine")
      processes_per_machine_ = std::atoi(value.c_str());
    else if (contains(kKept, name))
      settings_[name] = name == "use_fsdp" || name == "cpu" ? Json(true) : Json(value);
    else if (name.starts_with("fsdp_"))
      settings_["fsdp_config"][name] = value;
    return i;
  }
  LaunchedCommand start(std::string_view script, std::vector<std::string> words) {
    if (processes_per_machine_ > 0) {
      const auto machines = settings_.value("num_machines", std::string("1"));
      settings_["num_processes"] = std::to_string(processes_per_machine_ * std::max(std::atoi(machines.c_str()), 1));
    }
    if (auto command = swift_command(script); !command.empty()) {
      if (!settings_.empty()) words.insert(words.end(), {"--accelerate_launch", settings_.dump()});
      return {FrontEnd::swift, std::move(command), std::move(words)};
    }
    if (!settings_.empty()) words.push_back("accelerate_launch=" + settings_.dump());
    return {FrontEnd::accelerate, "train", std::move(words)};
  }

 private:
  Json settings_ = Json::object();
  int processes_per_machine_ = 0;
};

}  // namespace

LaunchedCommand unwrap_launcher(const std::vector<std::string>& words) {
  LaunchLine line;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool module = words[i] == "-m" || words[i] == "--module";
    if (module && i + 1 == words.size()) break;
    if (module) ++i;
    if (module || is_script(words[i])) return line.start(words[i], {words.begin() + static_cast<long>(i) + 1, words.end()});
    if (words[i].starts_with("-")) i = line.take(words, i);
  }
  throw UserError(ExitCode::usage, "accelerate launch: no script in the command line",
                  "accelerate launch src/train.py train.yaml");
}

}  // namespace hone::cli
