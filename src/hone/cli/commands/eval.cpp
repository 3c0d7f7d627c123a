// eval: benchmarks by log-likelihood and by generation, as in ms-swift, LLaMA-Factory and lm-evaluation-harness.
#include <chrono>
#include <ctime>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/eval_config.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/inference/reply_generator.h"
#include "hone/cli/hub_options.h"
#include "hone/eval/report.h"
#include "hone/train/run_folder.h"

namespace hone::cli {
namespace {

std::string time_of_run() {
  std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", std::localtime(&now));
  return text;
}

// The model under test and the objects that must outlive it.
class LoadedModel final : public eval::Model {
 public:
  explicit LoadedModel(const Options& options)
      : generator_(options),
        model_(eval::make_engine_model(generator_.engine(), generator_.tokenizer(), generator_.encoder(),
                                       {.apply_chat_template = applies_chat_template(options),
                                        .fewshot_as_multiturn = *EvalArguments(options).fewshot_as_multiturn,
                                        .eos_token_ids = end_of_answer(options)})) {}
  std::vector<eval::Likelihood> likelihoods(const std::vector<eval::LikelihoodRequest>& requests,
                                            const eval::OnAnswered& answered) override {
    return model_->likelihoods(requests, answered);
  }
  std::vector<double> rolling_likelihoods(const std::vector<std::string>& texts, const eval::OnAnswered& answered) override {
    return model_->rolling_likelihoods(texts, answered);
  }
  std::vector<std::string> generate(const std::vector<eval::GenerationRequest>& requests,
                                    const eval::OnAnswered& answered) override {
    return model_->generate(requests, answered);
  }

 private:
  // For chat, the template's stop tokens; for plain text those of the tokenizer and generation_config.json, as in transformers.
  std::vector<text::TokenId> end_of_answer(const Options& options) const {
    if (applies_chat_template(options)) return generator_.sampling().eos_token_ids;
    auto ends = end_tokens(model_folder(options));
    if (auto eos = generator_.tokenizer()->special().eos) ends.push_back(*eos);
    return ends;
  }

  ReplyGenerator generator_;
  std::unique_ptr<eval::Model> model_;
};

// An engine with replicas reads a copy of the options: what it read counts as read.
std::unique_ptr<eval::Model> load_with_replicas(const Options& options) {
  const auto with = with_replicas(options);
  auto model = std::make_unique<LoadedModel>(with);
  const auto used = with.in_order(), given = options.in_order();  // the same options in the same order
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]->read) given[i]->read = true;
  return model;
}

// The options that eval shares with infer.
void apply_common_generation(const GenerationArguments& args, std::vector<eval::Task>& tasks) {
  for (auto& task : tasks) {
    if (args.max_new_tokens.is_set() && args.max_new_tokens.has_value() && *args.max_new_tokens > 0)
      task.generation.max_gen_toks = *args.max_new_tokens;
    if (args.temperature.is_set() && args.temperature.has_value()) task.generation.temperature = *args.temperature;
  }
}

int run_factory(const Options& options) {
  auto config = factory_evaluation_config(options);
  auto subjects = eval::read_factory_subjects(config);
  if (!config.save_dir.empty()) {
    train::check_output_folder(config.save_dir, "save_dir");
    fs::remove(config.save_dir);  // it must not exist if this run fails and is repeated
  }
  ReplyGenerator generator(options);
  fmt::print("{}\n", eval::run_factory_evaluation(config, subjects, generator.engine(), *generator.encoder()));
  return 0;
}

// {dataset: {metric: value}}, the form of ms-swift's result line.
Json scores_of(const std::vector<eval::TaskResult>& results) {
  Json scores = Json::object();
  for (const auto& result : results)
    for (const auto& metric : result.metrics)
      scores[result.name][metric.filter == "none" ? metric.metric : metric.metric + "," + metric.filter] = metric.value;
  return scores;
}

// ms-swift's eval_result.jsonl: in the checkpoint's folder, or at --result_path.
void append_swift_line(const Options& options, const std::string& time, const fs::path& folder, const Json& scores) {
  const EvalArguments eval_args(options);
  const GenerationArguments generation_args(options);
  const ModelArguments model_args(options);
  fs::path file = generation_args.result_path.is_set() ? *generation_args.result_path : "";
  if (file.empty()) {
    auto adapters = *model_args.adapters;
    fs::path checkpoint = adapters.empty() ? *model_args.model : adapters.back();
    file = (fs::is_directory(checkpoint) ? checkpoint : fs::path("result") / checkpoint.filename()) / "eval_result.jsonl";
  }
  Json line{{"Native", scores},
            {"time", time},
            {"model", *model_args.model},
            {"adapters", *model_args.adapters},
            {"result_path", file.string()},
            {"eval_output_dir", folder.string()},
            {"eval_limit", eval_args.eval_limit.has_value() ? Json(*eval_args.eval_limit) : Json(nullptr)}};
  try {
    if (file.has_parent_path()) fs::create_directories(file.parent_path());
    append_line(file, line.dump(-1, ' ', false, Json::error_handler_t::replace));
    log::info("The eval result have been saved to result_jsonl: `{}`.", file.string());
  } catch (const std::exception& problem) {
    log::warning("{} was not written: {}", file.string(), problem.what());
  }
}

void write_report(const fs::path& folder, const Options& options, const std::vector<eval::TaskResult>& tasks,
                  const std::vector<eval::TaskResult>& groups, const std::vector<eval::Group>& tree, double seconds) {
  const EvalArguments eval_args(options);
  const ModelArguments model_args(options);
  fs::create_directories(folder);
  auto report = eval::results_json(tasks, groups, tree);
  report["config"] = {{"model", *model_args.model},
                      {"adapters", *model_args.adapters},
                      {"limit", eval_args.eval_limit.has_value() ? Json(*eval_args.eval_limit) : Json(nullptr)},
                      {"apply_chat_template", applies_chat_template(options)}};
  report["total_evaluation_time_seconds"] = seconds;
  write_file_atomically(folder / "results.json", report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!eval_args.log_samples) return;
  for (const auto& task : tasks) {
    std::string lines;
    for (const auto& sample : task.logged) lines += sample.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    write_file_atomically(folder / fmt::format("samples_{}.jsonl", task.name), lines);
  }
}

}  // namespace

int eval_command(const Options& options) {
  const EvalArguments args(options);
  if (args.eval_task.has_value()) return run_factory(options);
  if (*args.eval_backend == "VLMEvalKit")
    throw UserError(ExitCode::usage, "--eval_backend VLMEvalKit: benchmarks with images are not supported",
                    "docs/evaluation.md lists those that are");
  if (*args.eval_backend == "OpenCompass")
    log::warning("--eval_backend OpenCompass: hone runs the benchmarks itself; their prompts are lm-evaluation-harness's");
  const auto settings = benchmark_settings(options);
  auto began = std::chrono::steady_clock::now();
  auto source = task_source(options, settings);
  auto set = eval::find_tasks(settings.names, source);
  apply_common_generation(GenerationArguments(options), set.tasks);
  apply_generation_config(args.eval_generation_config, settings.generation, set.tasks);
  auto load = [&]() -> std::unique_ptr<eval::Model> {
    train::check_output_folder(*args.eval_output_dir, "eval_output_dir");
    if (args.eval_url.has_value()) return eval::make_remote_model(evaluated_server(options), *args.fewshot_as_multiturn);
    return load_with_replicas(options);
  };
  auto tasks = eval::run_tasks(set.tasks, load, source.fetch, eval_run_config(options, settings));
  auto groups = eval::run_groups(set.groups, tasks);
  auto time = time_of_run();
  auto folder = fs::path(*args.eval_output_dir) / time;
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  fmt::print("{}", eval::results_table(tasks, groups, set.groups));
  write_report(folder, options, tasks, groups, set.groups, seconds);
  log::info("results written to {}", (folder / "results.json").string());
  if (options.front_end() == FrontEnd::swift)
    append_swift_line(options, time, folder, scores_of(groups.empty() ? tasks : groups));
  return 0;
}

}  // namespace hone::cli
