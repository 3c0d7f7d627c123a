#include "hone/cli/accelerate.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "hone/base/error.h"
#include "hone/base/json.h"
#include "hone/cli/parsing/parse.h"

namespace hone::cli {
namespace {

// Options without a value, of accelerate, torchrun and deepspeed.
constexpr std::string_view kBareOptions[] = {"multi_gpu",
                                             "cpu",
                                             "mps",
                                             "tpu",
                                             "use_deepspeed",
                                             "use_fsdp",
                                             "use_megatron_lm",
                                             "use_xpu",
                                             "quiet",
                                             "q",
                                             "debug",
                                             "no_python",
                                             "same_network",
                                             "use_parallelism_config",
                                             "tpu_cluster",
                                             "run_path",
                                             "no_local_rank",
                                             "no_tpu_cluster",
                                             "tpu_use_sudo",
                                             "dynamo_use_dynamic",
                                             "dynamo_use_fullgraph",
                                             "standalone",
                                             "no_ssh",
                                             "force_multi",
                                             "save_pid",
                                             "elastic_training",
                                             "downcast_bf16",
                                             "enable_cpu_affinity",
                                             "bind_cores_to_rank"};
// Options that set the number of processes, the devices, the precision and the sharding of the model.
constexpr std::string_view kKept[] = {
    "config_file", "num_processes", "num_machines",    "machine_rank", "main_process_ip", "main_process_port", "mixed_precision",
    "use_fsdp",    "use_deepspeed", "use_megatron_lm", "cpu"};
constexpr std::string_view kCounts[] = {"num_processes", "num_machines", "machine_rank", "main_process_port",
                                        "processes_per_machine"};
constexpr std::string_view kOfDeepSpeed[] = {"deepspeed_config_file", "zero_stage", "offload_optimizer_device",
                                             "offload_param_device"};
// Options that request what happens here anyway.
constexpr std::string_view kRedundant[] = {
    "multi_gpu", "quiet", "q", "no_python", "same_network", "standalone", "use_parallelism_config", "main_training_function"};

// What torchrun and deepspeed call them. Their number of processes is that of one machine.
constexpr std::pair<std::string_view, std::string_view> kLauncherNames[] = {{"nproc_per_node", "processes_per_machine"},
                                                                            {"num_gpus", "processes_per_machine"},
                                                                            {"nnodes", "num_machines"},
                                                                            {"num_nodes", "num_machines"},
                                                                            {"node_rank", "machine_rank"},
                                                                            {"master_addr", "main_process_ip"},
                                                                            {"master_port", "main_process_port"}};
// Launchers that are started as a module: python -m torch.distributed.run.
constexpr std::string_view kLauncherModules[] = {"torch.distributed.run", "torch.distributed.launch",
                                                 "accelerate.commands.launch", "deepspeed.launcher.runner"};

bool is_script(std::string_view word) { return word.ends_with(".py"); }

// "sft" of swift/cli/sft.py and of swift.cli.sft; empty for other programs.
std::string swift_command(std::string_view script) {
  for (const auto& [folder, end] : {std::pair<std::string_view, std::string_view>{"swift/cli/", ".py"}, {"swift.cli.", ""}}) {
    const auto at = script.rfind(folder);
    if (at == script.npos || !script.ends_with(end)) continue;
    const auto name = script.substr(at + folder.size(), script.size() - at - folder.size() - end.size());
    if (name.starts_with("_megatron"))
      throw UserError(ExitCode::usage, fmt::format("{} is a script of Megatron-SWIFT", script),
                      "start it as NPROC_PER_NODE=8 megatron sft --model …");
    if (name.find_first_of("/.") == name.npos) return std::string(name);
  }
  return "";
}

void require_count(const std::string& typed, const std::string& value) {
  static constexpr Option kCount("count", Integer(0), "", "");
  if (const auto count = read_value(kCount, Json(value)); !count || count->is_null())
    throw UserError(ExitCode::usage, fmt::format("--{} is \"{}\"; expected a whole number", typed, value),
                    "give a number: neither auto, gpu nor a range is read");
}

class LaunchLine {
 public:
  // Consumes the option at `i` and its value, if any; returns the index of the last argument consumed.
  size_t take(const std::vector<std::string>& words, size_t i) {
    const auto& word = words[i];
    const auto equals = word.find('=');
    const auto name = underscored(std::string_view(word).substr(0, equals).substr(word.starts_with("--") ? 2 : 1));
    if (equals != word.npos)
      set(name, word.substr(equals + 1));
    else if (std::ranges::count(kBareOptions, name) || i + 1 == words.size() || is_script(words[i + 1]))
      set(name, "true");
    else
      set(name, words[++i]);
    return i;
  }

  LaunchedCommand start(std::string_view script, std::vector<std::string> words) {
    if (processes_per_machine_ > 0) {
      const auto machines = settings_.value("num_machines", std::string("1"));
      settings_["num_processes"] = std::to_string(processes_per_machine_ * std::max(std::atoi(machines.c_str()), 1));
    }
    auto command = swift_command(script);
    const bool is_swift = !command.empty();
    if (is_swift && command == "main" && !words.empty()) {
      command = words.front();
      words.erase(words.begin());
    }
    if (!settings_.empty() && is_swift) words.insert(words.end(), {"--accelerate_launch", settings_.dump()});
    if (!settings_.empty() && !is_swift) words.push_back("accelerate_launch=" + settings_.dump());
    return {is_swift ? FrontEnd::swift : FrontEnd::accelerate, is_swift ? std::move(command) : "train", std::move(words),
            std::move(notes_)};
  }

 private:
  void set(const std::string& typed, const std::string& value) {
    std::string name = typed;
    for (const auto& [theirs, ours] : kLauncherNames)
      if (typed == theirs) name = ours;
    if (std::ranges::count(kCounts, name)) require_count(typed, value);
    if (name == "processes_per_machine")
      processes_per_machine_ = std::atoi(value.c_str());
    else if (std::ranges::count(kKept, name))
      settings_[name] = std::ranges::count(kBareOptions, name) ? Json(true) : Json(value);
    else if (std::ranges::count(kOfDeepSpeed, name))
      settings_["deepspeed_config"][name] = value;
    else if (name.starts_with("fsdp_"))
      settings_["fsdp_config"][name] = value;
    else if (name.starts_with("parallelism_config_"))
      settings_["parallelism_config"][name] = value;
    else if (name == "gpu_ids" && value != "all")
      notes_.push_back(
          fmt::format("the launcher's --{} is not read; to select devices, set CUDA_VISIBLE_DEVICES={}", typed, value));
    else if (name != "gpu_ids" && !std::ranges::count(kRedundant, name))
      notes_.push_back(fmt::format("the launcher's --{} has no effect", typed));
  }

  Json settings_ = Json::object();
  int processes_per_machine_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

LaunchedCommand unwrap_launcher(const std::vector<std::string>& words) {
  LaunchLine line;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool module = words[i] == "-m" || words[i] == "--module";
    if (module && i + 1 == words.size()) break;
    if (module) ++i;
    if (module && std::ranges::count(kLauncherModules, words[i])) continue;
    if (module || is_script(words[i])) return line.start(words[i], {words.begin() + static_cast<long>(i) + 1, words.end()});
    if (words[i].starts_with("-")) i = line.take(words, i);
  }
  throw UserError(ExitCode::usage, "accelerate launch: no script in the command line",
                  "accelerate launch src/train.py train.yaml");
}

}  // namespace hone::cli
