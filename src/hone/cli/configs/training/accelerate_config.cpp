#include "hone/cli/configs/training/accelerate_config.h"

#include <algorithm>
#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/json.h"

namespace hone::cli {
namespace {

constexpr const char* kLaunchedAs = "distributed_type";

// Options of `accelerate launch`, then its config file.
Json accelerate_settings(const DistributedArguments& args) {
  if (!args.accelerate_launch.has_value()) return Json::object();
  auto line = *args.accelerate_launch;
  Json settings = line.contains("config_file") ? read_config_file(line["config_file"].get<std::string>()) : Json::object();
  settings.update(line);
  return settings;
}

}  // namespace

std::optional<parallel::ShardingRequest> accelerate_sharding(const DistributedArguments& args) {
  const auto settings = accelerate_settings(args);
  const auto type = settings.value(kLaunchedAs, std::string());
  const bool fsdp = type == "FSDP" || settings.value("use_fsdp", false);
  if (fsdp) return parallel::read_fsdp("", settings.contains("fsdp_config") ? settings["fsdp_config"] : Json(nullptr));
  if (type != "DEEPSPEED" || !settings.contains("deepspeed_config")) return {};
  const auto& inner = settings["deepspeed_config"];
  if (inner.contains("deepspeed_config_file"))
    return parallel::read_deepspeed(read_config_file(inner["deepspeed_config_file"].get<std::string>()));
  Json zero{{"stage", inner.value("zero_stage", 2)}};
  for (const char* which : {"optimizer", "param"})
    if (auto device = inner.value(fmt::format("offload_{}_device", which), std::string("none")); device != "none")
      zero[fmt::format("offload_{}", which)] = {{"device", device}};
  return parallel::read_deepspeed({{"zero_optimization", zero}});
}

bool accelerate_launches_deepspeed(const DistributedArguments& args) {
  const auto settings = accelerate_settings(args);
  return settings.value(kLaunchedAs, std::string()) == "DEEPSPEED" && !settings.value("use_fsdp", false);
}

Json accelerate_parallelism(const DistributedArguments& args) {
  if (args.parallelism_config.has_value()) return *args.parallelism_config;
  constexpr std::string_view kName = "parallelism_config", kPrefix = "parallelism_config_";
  auto launched = accelerate_settings(args);
  Json config = Json::object();
  if (!launched.contains(kName) || !launched[kName].is_object()) return config;
  for (const auto& [key, value] : launched[kName].items())
    config[key.starts_with(kPrefix) ? key.substr(kPrefix.size()) : key] = value;
  return config;
}

// accelerate counts the processes of all machines.
std::map<std::string, std::string> accelerate_launch(const Options& options) {
  const auto settings = accelerate_settings(DistributedArguments(options));
  static constexpr std::pair<const char*, const char*> kNames[] = {{"num_processes", "NPROC_PER_NODE"},
                                                                   {"num_machines", "NNODES"},
                                                                   {"machine_rank", "NODE_RANK"},
                                                                   {"main_process_ip", "MASTER_ADDR"},
                                                                   {"main_process_port", "MASTER_PORT"}};
  std::map<std::string, std::string> launch;
  for (const auto& [key, variable] : kNames)
    if (settings.contains(key) && !settings[key].is_null())
      launch[variable] = settings[key].is_string() ? settings[key].get<std::string>() : settings[key].dump();
  int machines = std::max(1, std::atoi(launch["NNODES"].c_str())), processes = std::atoi(launch["NPROC_PER_NODE"].c_str());
  if (machines > 1 && processes > 0) launch["NPROC_PER_NODE"] = std::to_string(std::max(1, processes / machines));
  return launch;
}

int launched_processes(const Options& options) {
  if (!(options.verb() & kTraining)) return 0;
  const auto settings = accelerate_settings(DistributedArguments(options));
  const auto count = settings.value("num_processes", Json());
  return count.is_number_integer() ? count.get<int>() : count.is_string() ? std::atoi(count.get<std::string>().c_str()) : 0;
}

std::string launched_precision(const Options& options) {
  const char* variable = std::getenv("ACCELERATE_MIXED_PRECISION");
  auto word = accelerate_settings(DistributedArguments(options)).value("mixed_precision", std::string(variable ? variable : ""));
  if (word.empty() || word == "no") return "";
  if (word != "bf16" && word != "fp16")
    throw UserError(ExitCode::usage, fmt::format("accelerate's mixed_precision is {}", word), "expected no, bf16 or fp16");
  return word;
}

bool launched_on_cpu(const Options& options) {
  auto settings = accelerate_settings(DistributedArguments(options));
  return settings.value("cpu", false) || settings.value("use_cpu", false);
}

}  // namespace hone::cli
