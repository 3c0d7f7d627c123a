#include "hone/cli/configs/eval_config.h"

#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/hub/locate.h"

namespace hone::cli {

eval::TaskSource task_source(const Options& options) {
  const EvalArguments args(options);
  eval::TaskSource source;
  for (const auto& folder : *args.include_path) source.include_paths.emplace_back(folder);
  if (args.eval_dataset_args.has_value()) source.dataset_args = *args.eval_dataset_args;
  if (!source.dataset_args.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is no object", args.eval_dataset_args.flag()),
                    "expected {\"gsm8k\": {\"local_path\": \"folder\"}}");
  source.fetch = [](const std::string& id) { return hub::locate_dataset(id, hub::config().site); };
  return source;
}

eval::RunConfig eval_run_config(const Options& options) {
  const EvalArguments args(options);
  eval::RunConfig config;
  if (args.eval_limit.has_value()) config.limit = *args.eval_limit;
  if (args.n_shot.has_value()) config.num_fewshot = *args.n_shot;
  config.fewshot_seed = static_cast<uint64_t>(*args.fewshot_seed);
  config.seed = static_cast<uint64_t>(*ModelArguments(options).seed);
  config.apply_chat_template = applies_chat_template(options);
  config.keep_samples = *args.log_samples;
  return config;
}

bool applies_chat_template(const Options& options) {
  const EvalArguments args(options);
  if (args.eval_url.has_value()) return true;  // a chat is all that a server takes
  return args.apply_chat_template.has_value() ? *args.apply_chat_template : options.front_end() == FrontEnd::swift;
}

void apply_generation_config(const Options& options, std::vector<eval::Task>& tasks) try {
  const EvalArguments eval_args(options);
  const GenerationArguments generation_args(options);
  Json given = eval_args.eval_generation_config.has_value() ? *eval_args.eval_generation_config : Json::object();
  for (auto& task : tasks) {
    auto& kwargs = task.generation;
    if (generation_args.max_new_tokens.is_set() && generation_args.max_new_tokens.has_value() &&
        *generation_args.max_new_tokens > 0)
      kwargs.max_gen_toks = *generation_args.max_new_tokens;
    if (generation_args.temperature.is_set() && generation_args.temperature.has_value())
      kwargs.temperature = *generation_args.temperature;
    for (const auto& [key, value] : given.items()) {
      if (key == "max_tokens" || key == "max_new_tokens" || key == "max_gen_toks")
        kwargs.max_gen_toks = value.get<int64_t>();
      else if (key == "temperature")
        kwargs.temperature = value.get<double>();
      else if (key == "top_p")
        kwargs.top_p = value.get<double>();
      else if (key == "top_k")
        kwargs.top_k = std::max<int64_t>(0, value.get<int64_t>());
      else if (key == "min_p")
        kwargs.min_p = value.get<double>();
      else if (key == "repetition_penalty")
        kwargs.repetition_penalty = value.get<double>();
      else if (key == "stop" || key == "until" || key == "stop_seqs")
        kwargs.until = value.is_array() ? value.get<std::vector<std::string>>() : std::vector{value.get<std::string>()};
      else if (key == "n" || key == "repeats")
        task.repeats = value.get<int64_t>();
      else if (key != "do_sample" && key != "batch_size" && key != "stream" && key != "timeout")
        throw UserError(ExitCode::usage,
                        fmt::format("{} has {}, which is not followed", eval_args.eval_generation_config.flag(), key),
                        "expected max_tokens, temperature, top_p, top_k, min_p, repetition_penalty, stop or n");
    }
    if (!given.value("do_sample", true)) kwargs.temperature = 0;
  }
} catch (const Json::exception& problem) {
  throw UserError(ExitCode::usage, fmt::format("{}: {}", EvalArguments(options).eval_generation_config.flag(), problem.what()));
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
