#include "hone/cli/configs/eval_config.h"

#include "hone/hub/locate.h"

namespace hone::cli {

eval::TaskSource task_source(const Options& options) {
  eval::TaskSource source;
  for (const auto& folder : options.list("include_path")) source.include_paths.emplace_back(folder);
  if (options.has("eval_dataset_args")) source.dataset_args = options.json("eval_dataset_args");
  if (!source.dataset_args.is_object())
    throw UserError(ExitCode::usage, fmt::format("{} is no object", options.display_name("eval_dataset_args")),
                    "expected {\"gsm8k\": {\"local_path\": \"folder\"}}");
  source.fetch = [](const std::string& id) { return hub::locate_dataset(id, hub::config().site); };
  return source;
}

eval::RunConfig eval_run_config(const Options& options) {
  eval::RunConfig config;
  if (options.has("eval_limit")) config.limit = options.real("eval_limit");
  if (options.has("n_shot")) config.num_fewshot = options.integer("n_shot");
  config.fewshot_seed = static_cast<uint64_t>(options.integer("fewshot_seed"));
  config.seed = static_cast<uint64_t>(options.integer("seed"));
  config.apply_chat_template = applies_chat_template(options);
  config.keep_samples = options.flag("log_samples");
  return config;
}

bool applies_chat_template(const Options& options) {
  if (options.has("eval_url")) return true;  // a chat is all that a server takes
  return options.has("apply_chat_template") ? options.flag("apply_chat_template") : options.front_end() == FrontEnd::swift;
}

void apply_generation_config(const Options& options, std::vector<eval::Task>& tasks) try {
  Json given = options.has("eval_generation_config") ? options.json("eval_generation_config") : Json::object();
  for (auto& task : tasks) {
    auto& kwargs = task.generation;
    if (options.is_set("max_new_tokens") && options.has("max_new_tokens") && options.integer("max_new_tokens") > 0)
      kwargs.max_gen_toks = options.integer("max_new_tokens");
    if (options.is_set("temperature") && options.has("temperature")) kwargs.temperature = options.real("temperature");
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
                        fmt::format("{} has {}, which is not followed", options.display_name("eval_generation_config"), key),
                        "expected max_tokens, temperature, top_p, top_k, min_p, repetition_penalty, stop or n");
    }
    if (!given.value("do_sample", true)) kwargs.temperature = 0;
  }
} catch (const Json::exception& problem) {
  throw UserError(ExitCode::usage, fmt::format("{}: {}", options.display_name("eval_generation_config"), problem.what()));
}

eval::FactoryEvaluationConfig factory_evaluation_config(const Options& options) {
  eval::FactoryEvaluationConfig config;
  config.task = options.required("eval_task");
  config.task_dir = options.text("task_dir");
  config.lang = options.text("lang");
  if (options.has("n_shot")) config.n_shot = options.integer("n_shot");
  config.seed = static_cast<uint64_t>(options.integer("seed"));
  config.save_dir = options.has("save_dir") ? options.text("save_dir") : "";
  return config;
}

eval::ChatServer evaluated_server(const Options& options) {
  return {.url = options.text("eval_url"),
          .model = options.has("served_model_name") ? options.text("served_model_name") : options.text("model"),
          .api_key = options.has("api_key") ? options.text("api_key") : "",
          .concurrency = options.integer("eval_num_proc")};
}

}  // namespace hone::cli
