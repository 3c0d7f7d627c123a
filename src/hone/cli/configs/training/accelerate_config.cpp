#include "hone/cli/configs/training/accelerate_config.h"

#include <algorithm>
#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/json.h"
#include "hone/base/log.h"
#include "hone/cli/parsing/environment.h"
#include "hone/cli/parsing/json_setting.h"

namespace hone::cli {
namespace {

constexpr std::string_view kAccelerate = "accelerate", kFileExample = "distributed_type: FSDP, as accelerate config does";
constexpr Type kTypes = Choice(
    "no|FSDP|DEEPSPEED|MEGATRON_LM|MULTI_CPU|MULTI_GPU|MULTI_NPU|MULTI_MLU|MULTI_MUSA|MULTI_SDAA|MULTI_XPU|MULTI_HPU|"
    "MULTI_NEURON");
constexpr std::string_view kRead[] = {"distributed_type",  "fsdp_config",     "deepspeed_config", "parallelism_config",
                                      "num_processes",     "num_machines",    "machine_rank",     "main_process_ip",
                                      "main_process_port", "mixed_precision", "use_cpu",          "gpu_ids",
                                      "megatron_lm_config"};
// Settings of the file that request what happens here anyway, or that concern the start of Python.
constexpr std::string_view kMatching[] = {"compute_environment", "debug",        "enable_cpu_affinity", "main_training_function",
                                          "rdzv_backend",        "same_network", "downcast_bf16"};
constexpr std::string_view kOfTheRun[] = {"gradient_accumulation_steps", "gradient_clipping"};
constexpr std::string_view kDeepSpeedKeys[] = {"deepspeed_config_file",        "zero_stage",        "offload_optimizer_device",
                                               "offload_param_device",         "zero3_init_flag",   "zero3_save_16bit_model",
                                               "deepspeed_multinode_launcher", "deepspeed_hostfile"};

bool asks_for_nothing(const Json& value) {
  return value.is_null() || value == false || value == "no" || value == "" || (value.is_structured() && value.empty());
}

// A setting without effect is named once, by the process that starts the others.
void warn_of_unread(const std::string& path, const Json& settings) {
  if (!is_reporting_process()) return;
  for (const auto& [key, value] : settings.items()) {
    if (key == "gpu_ids" && !asks_for_nothing(value) && value != "all")
      log::warn_once(
          fmt::format("{}: gpu_ids is not read; to select devices, set CUDA_VISIBLE_DEVICES={}", path, show_value(value)));
    else if (!std::ranges::count(kRead, key) && !std::ranges::count(kMatching, key) && !asks_for_nothing(value))
      log::warn_once(fmt::format("{}: {} has no effect", path, key));
  }
}

// Options of `accelerate launch`, then its config file.
Json accelerate_settings(const DistributedArguments& args) {
  if (!args.accelerate_launch.has_value()) return Json::object();
  const auto line = as_mapping(args.accelerate_launch.flag(), *args.accelerate_launch, R"({"num_processes": 2})");
  const auto path = json_setting(kAccelerate, line, "config_file", Path);
  auto settings = path.is_null() ? Json::object() : read_mapping(path.get<std::string>(), kFileExample);
  if (!path.is_null()) warn_of_unread(path.get<std::string>(), settings);
  settings.update(line, /*merge_objects=*/true);
  return settings;
}

bool setting_is_on(const Json& settings, std::string_view key) { return json_setting(kAccelerate, settings, key, Flag) == true; }

// One of the choices in `type`. YAML's bare no is false.
std::string launched_choice(const Json& settings, std::string_view key, const Type& type) {
  const auto found = settings.find(key);
  if (found == settings.end() || *found == false) return "no";
  const auto value = json_setting(kAccelerate, settings, key, type);
  return value.is_null() ? "no" : value.get<std::string>();
}

// An option that names a type takes precedence over the file.
std::string distributed_type(const Json& settings) {
  const auto type = setting_is_on(settings, "use_fsdp")          ? "FSDP"
                    : setting_is_on(settings, "use_deepspeed")   ? "DEEPSPEED"
                    : setting_is_on(settings, "use_megatron_lm") ? "MEGATRON_LM"
                                                                 : launched_choice(settings, "distributed_type", kTypes);
  if (type == "MEGATRON_LM")
    throw UserError(ExitCode::usage, "accelerate: distributed_type is MEGATRON_LM, whose settings are not read",
                    "give layouts as options: tensor_parallel_size, pipeline_parallel_size, context_parallel_size");
  return type;
}

parallel::ShardingRequest launched_deepspeed(const Json& settings) {
  const auto config = as_mapping("accelerate: deepspeed_config", settings.value("deepspeed_config", Json()), "zero_stage: 2");
  constexpr std::string_view kWhere = "accelerate: deepspeed_config";
  if (const auto path = json_setting(kWhere, config, "deepspeed_config_file", Path); !path.is_null())
    return parallel::read_deepspeed(read_mapping(path.get<std::string>(), R"({"zero_optimization": {"stage": 2}})"));
  const auto stage = json_setting(kWhere, config, "zero_stage", Integer(0, 3));
  Json zero{{"stage", stage.is_null() ? Json(2) : stage}};
  for (const char* which : {"optimizer", "param"})
    if (const auto device = json_setting(kWhere, config, fmt::format("offload_{}_device", which), Text); !device.is_null())
      zero[fmt::format("offload_{}", which)] = {{"device", device}};
  auto made = parallel::read_deepspeed({{"zero_optimization", zero}});
  for (const auto& [key, value] : config.items())
    if (std::ranges::count(kOfTheRun, key))
      made.without_effect.push_back(key);  // the run's own options apply
    else if (!std::ranges::count(kDeepSpeedKeys, key) && !asks_for_nothing(value))
      made.unknown.push_back(fmt::format("deepspeed_config.{}", key));
  return made;
}

}  // namespace

std::optional<parallel::ShardingRequest> accelerate_sharding(const DistributedArguments& args) {
  const auto settings = accelerate_settings(args);
  const auto type = distributed_type(settings);
  if (type == "FSDP") return parallel::read_fsdp("", settings.value("fsdp_config", Json()));
  return type == "DEEPSPEED" ? std::optional(launched_deepspeed(settings)) : std::nullopt;
}

bool accelerate_launches_deepspeed(const DistributedArguments& args) {
  return distributed_type(accelerate_settings(args)) == "DEEPSPEED";
}

Json accelerate_parallelism(const DistributedArguments& args) {
  constexpr std::string_view kPrefix = "parallelism_config_";
  constexpr const char* kMesh = R"({"dp_replicate_size": 2, "dp_shard_size": 4})";
  if (args.parallelism_config.has_value()) return as_mapping(args.parallelism_config.flag(), *args.parallelism_config, kMesh);
  const auto launched =
      as_mapping("accelerate: parallelism_config", accelerate_settings(args).value("parallelism_config", Json()), kMesh);
  Json config = Json::object();
  for (const auto& [key, value] : launched.items()) config[key.starts_with(kPrefix) ? key.substr(kPrefix.size()) : key] = value;
  return config;
}

// accelerate counts the processes of all machines.
std::map<std::string, std::string> accelerate_launch(const Options& options) {
  const auto settings = accelerate_settings(DistributedArguments(options));
  std::map<std::string, std::string> launch;
  const auto add = [&](const char* key, const Type& type, const char* variable) {
    const auto value = json_setting(kAccelerate, settings, key, type);
    if (!value.is_null()) launch[variable] = show_value(value);
    return value;
  };
  const auto processes = add("num_processes", Integer(1), "NPROC_PER_NODE"), machines = add("num_machines", Integer(1), "NNODES");
  add("machine_rank", Integer(0), "NODE_RANK");
  add("main_process_ip", Text, "MASTER_ADDR");
  add("main_process_port", Integer(0), "MASTER_PORT");
  if (!processes.is_null() && machines > 1)
    launch["NPROC_PER_NODE"] = std::to_string(std::max<int64_t>(1, processes.get<int64_t>() / machines.get<int64_t>()));
  return launch;
}

int launched_processes(const Options& options) {
  if (!(options.verb() & kTraining)) return 0;
  const auto count = json_setting(kAccelerate, accelerate_settings(DistributedArguments(options)), "num_processes", Integer(1));
  return count.is_null() ? 0 : count.get<int>();
}

std::string launched_precision(const Options& options) {
  auto settings = accelerate_settings(DistributedArguments(options));
  const char* variable = std::getenv("ACCELERATE_MIXED_PRECISION");
  if (variable && *variable) settings.emplace("mixed_precision", variable);
  const auto precision = launched_choice(settings, "mixed_precision", Choice("no|bf16|fp16"));
  return precision == "no" ? "" : precision;
}

bool launched_on_cpu(const Options& options) {
  const auto settings = accelerate_settings(DistributedArguments(options));
  return setting_is_on(settings, "cpu") || setting_is_on(settings, "use_cpu");
}

}  // namespace hone::cli
