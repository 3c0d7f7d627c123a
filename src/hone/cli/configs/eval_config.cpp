#include "hone/cli/configs/eval_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/hub_options.h"
#include "hone/cli/parsing/json_setting.h"
#include "hone/device/num_threads.h"
#include "hone/hub/locate.h"

namespace hone::cli {
namespace {

int64_t weight_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().extension() == ".safetensors") bytes += static_cast<int64_t>(file.file_size());
  return bytes;
}

void read_extra(const std::string& flag, const Json& given, BenchmarkSettings& settings) {
  const auto extra = as_mapping(flag, given, R"({"limit": 100})");
  if (const auto names = json_setting(flag, extra, "datasets", List); !names.is_null())
    settings.names = names.get<std::vector<std::string>>();
  if (const auto limit = json_setting(flag, extra, "limit", Real(0)); !limit.is_null()) settings.limit = limit.get<double>();
  settings.dataset_args = extra.value("dataset_args", settings.dataset_args);
  settings.generation = extra.value("generation_config", settings.generation);
  static constexpr std::string_view kRead[] = {"datasets", "limit", "dataset_args", "generation_config"};
  for (const auto& [key, value] : extra.items())
    if (!std::ranges::count(kRead, key)) log::info("{}: {} has no effect", flag, key);
}

}  // namespace

Options with_replicas(Options options) {
  constexpr int64_t kSmallModel = int64_t{64} << 20, kMostReplicas = 16;
  const EngineArguments engine_args(options);
  const ModelArguments model_args(options);
  const AnyArg* const placing[] = {&engine_args.vllm_data_parallel_size, &engine_args.vllm_pipeline_parallel_size,
                                   &engine_args.vllm_tensor_parallel_size, &engine_args.vllm_engine_kwargs,
                                   &model_args.device_map};
  if (std::ranges::any_of(placing, [](const AnyArg* arg) { return arg->is_set(); }) || !device_of(options).is_cpu())
    return options;
  const int64_t threads = *model_args.threads > 0 ? *model_args.threads : device::num_threads();
  if (threads > 1 && weight_bytes(model_folder(options)) <= kSmallModel)
    options.set(engine_args.vllm_data_parallel_size.name(), std::min(threads, kMostReplicas), Source::automatic, "eval");
  return options;
}

BenchmarkSettings benchmark_settings(const Options& options) {
  const EvalArguments args(options);
  BenchmarkSettings settings{.names = *args.eval_dataset};
  if (args.eval_dataset_args.has_value()) settings.dataset_args = *args.eval_dataset_args;
  if (args.eval_generation_config.has_value()) settings.generation = *args.eval_generation_config;
  if (args.eval_limit.has_value()) settings.limit = *args.eval_limit;
  if (args.extra_eval_args.has_value()) read_extra(args.extra_eval_args.flag(), *args.extra_eval_args, settings);
  if (settings.names.empty())
    throw UserError(ExitCode::usage, fmt::format("{} is missing", args.eval_dataset.flag()),
                    fmt::format("expected task files or names: {}", fmt::join(eval::known_benchmarks(), ", ")));
  return settings;
}

eval::TaskSource task_source(const Options& options, const BenchmarkSettings& settings) {
  const EvalArguments args(options);
  eval::TaskSource source;
  for (const auto& folder : *args.include_path) source.include_paths.emplace_back(folder);
  source.dataset_args = settings.dataset_args;
  source.is_chat = applies_chat_template(options);
  if (!source.dataset_args.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is not an object", args.eval_dataset_args.flag()),
                    "expected {\"gsm8k\": {\"local_path\": \"folder\"}}");
  for (const auto& [name, about] : source.dataset_args.items())
    if (std::ranges::find(settings.names, name) == settings.names.end())
      log::warning("{} has settings of {}, which is not evaluated; {} is {}", args.eval_dataset_args.flag(), name,
                   args.eval_dataset.flag(), fmt::join(settings.names, ", "));
  source.fetch = [](const std::string& id) { return hub::locate_dataset(id, hub::config().site); };
  source.asks_modelscope = [](const std::string& id) {
    return hub::config().site == hub::Site::modelscope && !hub::find_in_caches(id, hub::Kind::dataset);
  };
  return source;
}

eval::RunConfig eval_run_config(const Options& options, const BenchmarkSettings& settings) {
  const EvalArguments args(options);
  eval::RunConfig config;
  config.limit = settings.limit;
  if (args.n_shot.has_value()) config.num_fewshot = *args.n_shot;
  config.fewshot_seed = static_cast<uint64_t>(args.fewshot_seed.value_or(1234));
  config.seed = static_cast<uint64_t>(*ModelArguments(options).seed);
  config.apply_chat_template = applies_chat_template(options);
  config.keep_samples = *args.log_samples;
  const RewardArguments rewards(options);
  if (rewards.code_sandbox.exists())
    config.scoring.sandbox = {.enabled = *rewards.code_sandbox == "bubblewrap",
                              .timeout = *rewards.code_timeout,
                              .memory_limit = *rewards.code_memory_limit};
  if (rewards.plugin_python.exists() && rewards.plugin_python.is_set()) config.scoring.python = *rewards.plugin_python;
  return config;
}

bool applies_chat_template(const Options& options) {
  const EvalArguments args(options);
  if (args.eval_url.has_value()) return true;  // the server API only supports chat
  return args.apply_chat_template.has_value() ? *args.apply_chat_template : options.front_end() == FrontEnd::swift;
}

void apply_generation_config(const AnyArg& option, const Json& settings, std::vector<eval::Task>& tasks) {
  bool is_greedy = false;
  auto apply = [&](eval::Task& task, const std::string& key, const Json& value) {
    if (task.generation.set(key, value)) return;
    if (key == "stop" || key == "until" || key == "stop_seqs")
      task.generation.until = value.is_array() ? value.get<std::vector<std::string>>() : std::vector{value.get<std::string>()};
    else if (key == "n" || key == "repeats")
      task.repeats = value.get<int64_t>();
    else if (key == "do_sample")
      is_greedy = !value.get<bool>();
    else if (key != "batch_size" && key != "stream" && key != "timeout")
      throw UserError(ExitCode::usage, fmt::format("{} has {}, which is not followed", option.flag(), key),
                      "expected max_tokens, temperature, top_p, top_k, min_p, repetition_penalty, stop or n");
  };
  for (const auto& [key, value] : settings.items()) {
    try {
      for (auto& task : tasks) apply(task, key, value);
    } catch (const Json::exception&) {
      throw UserError(ExitCode::usage, fmt::format("{}: {} is {}", option.flag(), key, value.dump()),
                      "expected a number; for stop a text or a list of texts; for do_sample true or false");
    }
  }
  if (is_greedy)
    for (auto& task : tasks) task.generation.temperature = 0;
}

eval::FactoryEvaluationConfig factory_evaluation_config(const Options& options) {
  const EvalArguments args(options);
  eval::FactoryEvaluationConfig config;
  config.task = args.eval_task.required();
  config.task_dir = *args.task_dir;
  config.lang = *ServerArguments(options).lang;
  if (args.n_shot.has_value()) config.n_shot = *args.n_shot;
  config.seed = static_cast<uint64_t>(*ModelArguments(options).seed);
  config.save_dir = args.save_dir.value_or("");
  config.batch_size = args.batch_size.value_or(0);
  return config;
}

eval::ChatServer evaluated_server(const Options& options) {
  const EvalArguments eval_args(options);
  const ServerArguments server_args(options);
  return {.url = *eval_args.eval_url,
          .model = server_args.served_model_name.has_value() ? *server_args.served_model_name : *ModelArguments(options).model,
          .api_key = server_args.api_key.value_or(""),
          .concurrency = *eval_args.eval_num_proc};
}

}  // namespace hone::cli
