#include "hone/cli/configs/training/rollout_config.h"

#include <algorithm>
#include <filesystem>

#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/engine_args.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/hub/locate.h"
#include "hone/hub/post_json.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::cli {
namespace {

using train::rl::ReinforcementConfig;

void read_functions(const Options& options, ReinforcementConfig& config) {
  const RewardArguments args(options);
  auto& rewards = config.rewards;
  rewards.functions = *args.reward_funcs;
  rewards.cosine_shortest_wrong = *args.cosine_min_len_value_wrong;
  rewards.cosine_longest_wrong = *args.cosine_max_len_value_wrong;
  rewards.cosine_shortest_right = *args.cosine_min_len_value_correct;
  rewards.cosine_longest_right = *args.cosine_max_len_value_correct;
  if (args.cosine_max_len.has_value()) rewards.cosine_longest = *args.cosine_max_len;
  rewards.repetition_words = *args.repetition_n_grams;
  rewards.repetition_penalty = *args.repetition_max_penalty;
  if (args.soft_max_length.has_value()) rewards.soft_longest = *args.soft_max_length;
  if (args.soft_cache_length.has_value()) rewards.soft_margin = *args.soft_cache_length;
  read_plugin_options(options, rewards);
}

void read_models(const RewardArguments& args, const train::TrainingJob& job, ReinforcementConfig& config) {
  const auto plugins = *args.reward_model_plugin;
  for (const auto& plugin : plugins)
    if (plugin != "default" && plugin != "genrm")
      throw UserError(ExitCode::usage, fmt::format("{} {} is Python that holds a model", args.reward_model_plugin.flag(), plugin),
                      fmt::format("expected default or genrm; otherwise run it as a server and pass its URL: {} "
                                  "http://127.0.0.1:9000/score (docs/reinforcement.md)",
                                  args.reward_funcs.flag()));
  if (!plugins.empty() && plugins.size() != args.reward_model->size())
    throw UserError(ExitCode::usage,
                    fmt::format("{} names {} for {} of {}", args.reward_model_plugin.flag(), counted(plugins.size(), "plugin"),
                                counted(args.reward_model->size(), "model"), args.reward_model.flag()),
                    "expected one for each: default, the model's score, or genrm, a chat model that is asked for one");
  auto adapters = *args.reward_adapters;
  auto models = *args.reward_model, revisions = *args.reward_model_revision, templates = *args.reward_template;
  for (size_t i = 0; i < models.size(); ++i) {
    train::RewardModelConfig model{.folder = hub::locate_model(models[i], i < revisions.size() ? revisions[i] : ""),
                                   .adapters = {},
                                   .load = job.load,
                                   .encode = job.encode};
    if (std::filesystem::exists(model.folder / "adapter_config.json") && !std::filesystem::exists(model.folder / "config.json"))
      throw UserError(ExitCode::bad_checkpoint,
                      fmt::format("{} {} holds an adapter, not a model", args.reward_model.flag(), models[i]),
                      fmt::format("name the model it was trained on, and the adapter separately: {} MODEL {} {}",
                                  args.reward_model.flag(), args.reward_adapters.flag(), models[i]));
    model.load.changes = {};
    model.encode.max_length = 0;
    model.encode.template_name = i < templates.size() ? templates[i] : "";
    for (const auto& adapter : adapters) model.adapters.push_back(hub::locate_model(adapter));
    if (!plugins.empty() && plugins[i] == "genrm") model.generates = default_sampling(model.folder, job.trainer.seed);
    config.reward_models.push_back(std::move(model));
  }
}

int64_t reward_bits(const RewardArguments& args) {
  const auto bits = *args.reward_model_quantization_bit;
  if (bits != 4 && bits != 8)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.reward_model_quantization_bit.flag(), bits), "expected 4 or 8");
  return bits;
}

// reward_model_type defines what reward_model names: an adapter of the policy, a model, or the URL of a server.
void read_factory_model(const RewardArguments& args, const train::TrainingJob& job, ReinforcementConfig& config) {
  const auto models = *args.reward_model;
  if (models.empty()) return;
  if (models.size() > 1)
    throw UserError(ExitCode::usage, fmt::format("{} names {} models", args.reward_model.flag(), models.size()), "expected one");
  config.rewards.http_timeout = *args.reward_timeout;
  config.rewards.allow_remote_rewards = *args.remote_rewards;
  const auto type = *args.reward_model_type;
  if (type == "api") {
    config.rewards.score_server = models.front();
    return;
  }
  train::RewardModelConfig model{
      .folder = hub::locate_model(models.front()), .adapters = {}, .load = job.load, .encode = job.encode};
  model.load.changes = {};
  model.encode.max_length = 0;
  if (type == "full") {
    for (const auto& adapter : *args.reward_adapters) model.adapters.push_back(hub::locate_model(adapter));
  } else {
    model.adapters = {model.folder};
    model.folder = job.model_folder;
  }
  if (args.reward_model_quantization_bit.has_value())
    model.load.changes.compression = ops::WeightQuantization{
        .code = reward_bits(args) == 8 ? ops::QuantType::int8 : ops::QuantType::nf4, .double_quant = true};
  config.reward_models.push_back(std::move(model));
}

// --vllm_server_base_url, or pairs of host and port; a single port applies to all hosts.
std::vector<std::string> server_addresses(const EngineArguments& args) {
  auto addresses = *args.vllm_server_base_url;
  const auto hosts = *args.vllm_server_host, ports = *args.vllm_server_port;
  if (!addresses.empty() && !hosts.empty())
    throw UserError(
        ExitCode::usage,
        fmt::format("{} and {} both name rollout servers", args.vllm_server_base_url.flag(), args.vllm_server_host.flag()),
        "leave one of them out");
  if (!hosts.empty() && ports.size() != 1 && ports.size() != hosts.size())
    throw UserError(ExitCode::usage,
                    fmt::format("{} names {} hosts, {} {} ports", args.vllm_server_host.flag(), hosts.size(),
                                args.vllm_server_port.flag(), ports.size()),
                    "expected a port for each host, or one for all");
  for (size_t i = 0; i < hosts.size(); ++i)
    addresses.push_back(fmt::format("http://{}:{}", hosts[i], ports[ports.size() == 1 ? 0 : i]));
  for (auto& address : addresses) {
    while (address.ends_with('/')) address.pop_back();
    if (!hub::read_address(address))
      throw UserError(ExitCode::usage, fmt::format("\"{}\" is not the address of a rollout server", address),
                      "expected one such as http://127.0.0.1:8000");
  }
  if (addresses.empty())
    throw UserError(ExitCode::usage, fmt::format("{} server needs a rollout server", args.vllm_mode.flag()),
                    fmt::format("start one with `hone rollout --model …` and name it: {} 127.0.0.1 {} 8000",
                                args.vllm_server_host.flag(), args.vllm_server_port.flag()));
  return addresses;
}

train::rl::RolloutServerConfig read_servers(const Options& options) {
  const EngineArguments args(options);
  if (*args.vllm_mode == "colocate")
    throw UserError(ExitCode::usage, fmt::format("{} is colocate, and a rollout server is given", args.vllm_mode.flag()),
                    "set it to server, or omit the rollout server");
  return {.addresses = server_addresses(args),
          .timeout = *args.vllm_server_timeout,
          .api_key = *args.vllm_server_api_key,
          .sampling_only = *args.vllm_server_type == "openai"};
}

bool uses_tools(const train::rl::TurnConfig& turns) {
  return turns.scheduler == "hermes_tools" || turns.scheduler == "react_tools";
}

void read_tools(const TurnArguments& args, train::rl::TurnConfig& turns) {
  auto& tools = turns.tools;
  tools.servers = *args.tool_servers;
  tools.mcp_servers = *args.mcp_servers;
  tools.allowed = *args.allowed_tools;
  tools.timeout = *args.tool_timeout;
  tools.response_limit = *args.tool_response_limit;
  tools.allow_remote = *args.remote_tools;
  const bool has_servers = !tools.servers.empty() || !tools.mcp_servers.empty();
  if (has_servers && !uses_tools(turns))
    throw UserError(
        ExitCode::usage,
        turns.scheduler.empty()
            ? fmt::format("there are tool servers, and no {} that calls tools", args.multi_turn_scheduler.flag())
            : fmt::format("the scheduler {} calls no tools", turns.scheduler),
        fmt::format("set {} hermes_tools or react_tools, or leave the servers out", args.multi_turn_scheduler.flag()));
  if (uses_tools(turns) && !has_servers)
    throw UserError(ExitCode::usage, fmt::format("{} {} needs a tool server", args.multi_turn_scheduler.flag(), turns.scheduler),
                    fmt::format("name one: {} http://127.0.0.1:9000/call, or {} http://127.0.0.1:9000/mcp (docs/agents.md)",
                                args.tool_servers.flag(), args.mcp_servers.flag()));
}

}  // namespace

void read_plugin_options(const Options& options, train::rl::RewardConfig& rewards) {
  const RewardArguments args(options);
  rewards.http_timeout = *args.reward_timeout;
  if (args.remote_rewards.exists()) rewards.allow_remote_rewards = *args.remote_rewards;
  if (args.code_sandbox.exists())
    rewards.sandbox = {
        .enabled = *args.code_sandbox == "bubblewrap", .timeout = *args.code_timeout, .memory_limit = *args.code_memory_limit};
  auto& plugins = rewards.plugins;
  plugins.files = *args.external_plugins;
  plugins.python = *args.plugin_python;
  plugins.timeout = rewards.http_timeout;
  if (args.plugin_memory_limit.has_value()) plugins.memory_limit = *args.plugin_memory_limit;
  if (plugins.files.empty()) return;
  for (const auto& file : plugins.files)
    if (!std::filesystem::is_regular_file(file))
      throw UserError(ExitCode::usage, fmt::format("{} {}: there is no such file", args.external_plugins.flag(), file));
  plugins.arguments = options.to_json();
}

bool uses_rollout_servers(const Options& options) {
  const EngineArguments args(options);
  return *args.vllm_mode == "server" || args.vllm_server_host.has_value() || args.vllm_server_base_url.has_value();
}

void read_sampling(const Options& options, ReinforcementConfig& config) {
  const EngineArguments engine_args(options);
  const GenerationArguments generation_args(options);
  auto& sampling = config.sampling;
  sampling.temperature = *generation_args.temperature;
  sampling.top_p = *generation_args.top_p;
  sampling.top_k = std::max<int64_t>(0, *generation_args.top_k);
  if (generation_args.min_p.has_value()) sampling.min_p = *generation_args.min_p;
  if (generation_args.repetition_penalty.has_value()) sampling.repetition_penalty = *generation_args.repetition_penalty;
  if (generation_args.stop_words.exists()) sampling.stop = *generation_args.stop_words;
  sampling.include_stop_str_in_output = true;
  sampling.max_tokens = *generation_args.max_new_tokens;
  if (sampling.max_tokens <= 0)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", generation_args.max_new_tokens.where(), sampling.max_tokens),
                    "expected 1 or more");
  if (uses_factory_dialect(options)) return;  // its PPO has no engine settings
  auto& engine = config.engine;
  engine.max_num_seqs = *engine_args.vllm_max_num_seqs;
  engine.gpu_memory_utilization = *engine_args.vllm_gpu_memory_utilization;
  engine.enable_prefix_caching = *engine_args.vllm_enable_prefix_caching;
  engine.use_cuda_graphs = !engine_args.vllm_enforce_eager;
  if (engine_args.vllm_max_model_len.has_value()) engine.max_model_len = *engine_args.vllm_max_model_len;
  apply_engine_args(options, engine);
  config.engine_sleeps = *engine_args.sleep_level > 0;
  if (uses_rollout_servers(options)) {
    config.servers = read_servers(options);
  } else if (*engine_args.use_vllm || engine_args.vllm_mode.has_value()) {
    log::info("completions are generated by hone's own engine, in the training processes");
  }
}

void read_rewards(const Options& options, std::string_view method, train::TrainingJob& job, ReinforcementConfig& config) {
  const RewardArguments args(options);
  if (!uses_factory_dialect(options)) read_functions(options, config);
  config.rewards.max_completion_length = config.sampling.max_tokens;
  config.rewards.plugins.arguments["max_completion_length"] = config.sampling.max_tokens;  // by ms-swift's name
  uses_factory_dialect(options) ? read_factory_model(args, job, config) : read_models(args, job, config);
  const auto made = make_rewards(config.rewards);  // validates names and settings before loading a model
  const auto count = made.size() + config.reward_models.size() + (config.turns && config.turns->gym_reward ? 1 : 0);
  const bool taught = config.teacher && !config.teacher->is_policy();
  if (count == 0 && !taught)
    throw UserError(
        ExitCode::usage, fmt::format("{} needs at least one reward", method),
        uses_factory_dialect(options)
            ? "name it with reward_model: the adapter or folder that a run of stage: rm wrote, or an address"
            : fmt::format("add {} accuracy format, the address of your own, or {}; an environment gives rewards if this "
                          "command has --multi_turn_scheduler gym_scheduler and --gym_env, not only `swift rollout`",
                          args.reward_funcs.flag(), args.reward_model.flag()));
  if (args.reward_weights.has_value()) config.advantage.weights = *args.reward_weights;
  if (auto weights = config.advantage.weights.size(); weights != 0 && weights != count)
    throw UserError(
        ExitCode::usage,
        fmt::format("{} names {} for {}", args.reward_weights.flag(), counted(weights, "weight"), counted(count, "reward")),
        "expected one for each");
}

void refuse_turns(const Options& options, std::string_view method) {
  const TurnArguments args(options);
  if (!args.multi_turn_scheduler.has_value() && !args.gym_env.has_value()) return;
  throw UserError(ExitCode::usage, fmt::format("{} does not support multi-turn rollouts", method),
                  fmt::format("leave {} out, or let completions be generated", args.multi_turn_scheduler.flag()));
}

void read_turns(const Options& options, train::rl::ReinforcementConfig& config) {
  const TurnArguments args(options);
  if (!args.multi_turn_scheduler.exists()) return;
  train::rl::TurnConfig turns;
  if (args.multi_turn_scheduler.has_value()) turns.scheduler = *args.multi_turn_scheduler;
  if (args.gym_env.has_value()) turns.gym_env = *args.gym_env;
  if (turns.scheduler.empty() && !turns.gym_env.empty()) turns.scheduler = "gym_scheduler";
  turns.gym_reward = args.use_gym_env.has_value() ? *args.use_gym_env : !turns.gym_env.empty();
  read_tools(args, turns);
  if (turns.scheduler.empty()) {
    if (turns.gym_reward)
      throw UserError(ExitCode::usage, fmt::format("{} without an environment", args.use_gym_env.flag()),
                      fmt::format("name it: {} NAME --external_plugins FILE", args.gym_env.flag()));
    return;
  }
  if (args.max_turns.has_value()) turns.max_turns = *args.max_turns;
  turns.limits_total = *args.completion_length_limit_scope == "total";
  train::rl::RewardConfig plugins;
  read_plugin_options(options, plugins);
  turns.plugins = plugins.plugins;
  if (turns.gym_reward && turns.plugins.files.empty() && turns.scheduler != "openenv_scheduler")
    throw UserError(ExitCode::usage, fmt::format("{} needs the environment", args.use_gym_env.flag()),
                    "name the file that registers it in envs with --external_plugins");
  config.turns = turns;
  make_scheduler(turns);  // validates names and URLs before loading a model
}

}  // namespace hone::cli
