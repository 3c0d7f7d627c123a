// sample: samples completions for the rows of a dataset and writes the best ones as a dataset, as ms-swift's `sample` does.
#include <ctime>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/reply_generator.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/row_report.h"
#include "hone/eval/models/chat_client.h"
#include "hone/eval/sampling/chat_messages.h"
#include "hone/eval/sampling/sample_rows.h"
#include "hone/hub/locate.h"
#include "hone/train/rl/rewards/model_reward.h"
#include "hone/train/run_folder.h"

namespace hone::cli {
namespace {

using eval::RowCompletions;

std::string default_file_name() {
  std::time_t now = std::time(nullptr);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d-%H-%M-%S.jsonl", std::localtime(&now));
  return text;
}

eval::SampleConfig sample_config(const Options& options) {
  const SampleArguments args(options);
  eval::SampleConfig config;
  config.output_dir = *OutputArguments(options).output_dir;
  config.resume = *args.resume;
  if (config.resume && !args.output_file.has_value())
    throw UserError(ExitCode::usage, "--resume needs --output_file", "name the file that an earlier run was to write");
  config.output_file = args.output_file.has_value() ? *args.output_file : default_file_name();
  config.batch_size = *args.num_sampling_batch_size;
  if (args.num_sampling_batches.has_value()) config.batches = *args.num_sampling_batches;
  if (args.data_range.has_value()) {
    auto range = *args.data_range;
    if (range.size() != 2 || range[0] < 0 || range[1] < 1 || range[0] >= range[1])
      throw UserError(ExitCode::usage, fmt::format("--data_range is {}", fmt::join(range, " ")),
                      "expected a part and the number of parts: 0 2, then 1 2");
    config.piece = static_cast<int64_t>(range[0]), config.pieces = static_cast<int64_t>(range[1]);
  }
  for (const auto& file : *args.cache_files) config.cache_files.emplace_back(file);
  auto& selection = config.selection;
  selection.num_return_sequences = *args.num_return_sequences;
  selection.n_best_to_keep = *args.n_best_to_keep;
  selection.prm_threshold = *args.prm_threshold;
  if (args.easy_query_threshold.has_value()) selection.easy_query_threshold = *args.easy_query_threshold;
  return config;
}

// The name of a reward function or plugin, the URL of a reward server, or the folder or id of a reward model.
std::unique_ptr<train::rl::Reward> make_selection_reward(const Options& options, const Arg<std::string>& option) {
  if (!option.has_value()) return nullptr;
  auto name = *option;
  train::rl::RewardConfig config;
  config.functions = {name == "math" ? "accuracy" : name};
  read_plugin_options(options, config);
  if (!fs::exists(name) && (name.find('/') == name.npos || name.find("://") != name.npos)) {
    train::rl::probe_rewards(config);
    return std::move(train::rl::make_rewards(config).front());
  }
  auto folder = hub::locate_model(name);
  return train::rl::make_model_reward(
      {.folder = folder, .adapters = {}, .load = load_options(options, folder), .encode = encode_config(options, 0)});
}

// Sampling settings, shared by all samplers.
struct AnswerConfig {
  size_t count = 1;                          // completions per prompt
  std::optional<std::string> system;         // replaces the row's system prompt
  std::optional<double> temperature, top_p;  // ms-swift's default temperature
  std::optional<int64_t> max_tokens;
  uint64_t seed = 0;
};

AnswerConfig answer_config(const Options& options) {
  const GenerationArguments args(options);
  const auto system = TemplateArguments(options).system;
  AnswerConfig config;
  config.count = static_cast<size_t>(*SampleArguments(options).num_return_sequences);
  if (system.is_set()) config.system = system.optional();
  if (args.temperature.is_set()) config.temperature = args.temperature.optional();
  config.top_p = args.top_p.optional();
  if (args.max_new_tokens.value_or(0) > 0) config.max_tokens = *args.max_new_tokens;
  config.seed = static_cast<uint64_t>(*ModelArguments(options).seed);
  return config;
}

data::Conversation with_system(data::Conversation question, const AnswerConfig& config) {
  if (!config.system) return question;
  auto& messages = question.messages;
  if (messages.empty() || messages.front().role != "system")
    messages.insert(messages.begin(), {.role = "system", .content = "", .loss = {}, .loss_scale = {}, .extra = {}});
  messages.front().content = *config.system;
  return question;
}

eval::AnswerRows no_answers() {
  return [](const std::vector<data::Conversation>& questions, int64_t) -> RowCompletions {
    throw UserError(ExitCode::usage, fmt::format("{} is not in --cache_files, and --sampler_engine no samples nothing",
                                                 questions.front().origin.str()));
  };
}

eval::AnswerRows engine_answers(const AnswerConfig& config, std::shared_ptr<ReplyGenerator> generator) {
  return [config, generator](const std::vector<data::Conversation>& questions, int64_t first) {
    const auto count = config.count;
    std::vector<engine::Request> requests;
    std::vector<size_t> asked;  // the questions of the requests
    RowCompletions answers;
    for (size_t i = 0; i < questions.size(); ++i) {
      answers.push_back(std::vector<std::string>());
      for (size_t j = 0; j < count && answers[i]; ++j) {
        auto number = (static_cast<uint64_t>(first) + i) * count + j;
        auto request = generator->request_for(with_system(questions[i], config), number);
        if (!request) {
          answers[i] = Error{request.error()};
          break;
        }
        if (!config.temperature) request->sampling.temperature = 1;  // ms-swift's default
        requests.push_back(std::move(*request)), asked.push_back(i);
      }
    }
    auto done = engine::generate(generator->engine(), std::move(requests));
    for (size_t i = 0; i < done.size(); ++i)
      if (done[i].finish != engine::FinishReason::error) answers[asked[i]]->push_back(std::move(done[i].text));
    return answers;
  };
}

// --engine_kwargs '{"base_url": …, "api_key": …}', the arguments of ms-swift's client.
eval::ChatServer teacher_server(const Options& options) {
  const SampleArguments args(options);
  constexpr auto kExpected = "--engine_kwargs '{\"base_url\": \"http://127.0.0.1:8000/v1\"}'";
  auto kwargs = args.engine_kwargs.has_value() ? *args.engine_kwargs : Json::object();
  eval::ChatServer server{.url = {}, .model = ModelArguments(options).model.required(), .api_key = {}};
  auto read = [&](const char* key, auto& setting) {
    try {
      setting = kwargs.value(key, setting);
    } catch (const Json::exception& problem) {  // names types only: values may be secret
      throw UserError(ExitCode::usage, fmt::format("--engine_kwargs: {}: {}", key, problem.what()),
                      fmt::format("expected texts base_url and api_key, numbers concurrency and timeout: {}", kExpected));
    }
  };
  if (!kwargs.is_object()) throw UserError(ExitCode::usage, "--engine_kwargs is not an object", kExpected);
  for (const auto& [key, value] : kwargs.items())
    if (key != "base_url" && key != "api_key" && key != "concurrency" && key != "timeout")
      throw UserError(
          ExitCode::usage, fmt::format("--engine_kwargs has {}, which is no setting of a server", key),
          "expected base_url, api_key, concurrency and timeout; generation settings are options, such as --temperature");
  read("base_url", server.url), read("api_key", server.api_key);
  read("concurrency", server.concurrency), read("timeout", server.timeout);
  if (server.url.empty()) throw UserError(ExitCode::usage, "--sampler_type distill needs a server, and none is given", kExpected);
  if (server.concurrency < 1 || server.timeout <= 0)
    throw UserError(ExitCode::usage,
                    fmt::format("--engine_kwargs: concurrency is {}, timeout {}", server.concurrency, server.timeout),
                    "expected numbers above 0");
  if (const char* key = std::getenv("OPENAI_API_KEY"); server.api_key.empty() && key) server.api_key = key;
  eval::completions_url(server.url);
  return server;
}

eval::AnswerRows server_answers(const AnswerConfig& config, const eval::ChatServer& server, const media::SourceRules& sources) {
  return [config, server, sources](const std::vector<data::Conversation>& questions, int64_t first) {
    const auto count = config.count;
    std::vector<Result<Json>> prompts;
    std::vector<size_t> asked;  // the questions that can be asked
    for (const auto& question : questions) {
      prompts.push_back(eval::chat_messages(with_system(question, config), sources));
      if (prompts.back()) asked.push_back(prompts.size() - 1);
    }
    std::vector<std::string> replies(questions.size() * count);
    Json settings{{"temperature", config.temperature.value_or(1.0)}};
    if (config.top_p) settings["top_p"] = *config.top_p;
    if (config.max_tokens) settings["max_tokens"] = *config.max_tokens;
    eval::run_concurrently(asked.size() * count, server.concurrency, [&](size_t k) {
      const auto i = asked[k / count] * count + k % count;
      auto own = settings;
      own["seed"] = engine::seed_of(config.seed, static_cast<uint64_t>(first) * count + i) & 0x7FFFFFFF;
      const auto choices = eval::ask_chat_server(server, *prompts[i / count], own);
      if (choices.empty() || choices[0].content.empty())
        return log::warning("{} returned an empty response to {}; it is left out", server.url, questions[i / count].origin.str());
      replies[i] = choices[0].reasoning.empty()
                       ? choices[0].content
                       : fmt::format("<think>{}</think>\n\n<answer>{}</answer>", choices[0].reasoning, choices[0].content);
    });
    RowCompletions answers;
    for (size_t i = 0; i < questions.size(); ++i) {
      if (!prompts[i]) {
        answers.push_back(data::row_error(data::RowProblem::media, questions[i].origin.str(), prompts[i].error()));
        continue;
      }
      std::vector<std::string> own;
      for (size_t j = 0; j < count; ++j)
        if (auto& reply = replies[i * count + j]; !reply.empty()) own.push_back(std::move(reply));
      answers.push_back(std::move(own));
    }
    return answers;
  };
}

}  // namespace

int sample_command(const Options& options) {
  const SampleArguments args(options);
  auto config = sample_config(options);
  const bool overwrites = *args.override_exist_file;
  if (auto file = config.output_dir / config.output_file; fs::exists(file) && !overwrites) {
    log::info("{} exists already; --override_exist_file true overwrites it", file.string());
    options.accept_unread();
    return 0;
  }
  auto datasets = dataset_config(options);
  datasets.prompts_only = true;
  if (datasets.datasets.empty())
    throw UserError(ExitCode::usage, fmt::format("{} is missing", DataArguments(options).dataset.flag()));
  auto opened = data::open_datasets(datasets);
  if (!opened.train) throw UserError(ExitCode::usage, "sample reads rows by number; leave --streaming out");
  eval::SelectionRewards rewards{make_selection_reward(options, args.orm_model), make_selection_reward(options, args.prm_model)};
  train::check_output_folder(config.output_dir);
  if (fs::path(config.output_file).has_parent_path())
    train::check_output_folder((config.output_dir / config.output_file).parent_path(), args.output_file.name());
  bool distills = *args.sampler_type == "distill";
  auto answer = distills
                    ? server_answers(answer_config(options), teacher_server(options), encode_config(options, 0).pictures.sources)
                : *GenerationArguments(options).infer_backend == "no"
                    ? no_answers()
                    : engine_answers(answer_config(options), std::make_shared<ReplyGenerator>(options));
  auto counts = eval::sample_rows(*opened.train, answer, rewards, config);
  log::info("Sample file {} generated: {} of {}; {} without an answer that was kept",
            (config.output_dir / config.output_file).string(), counted(counts.written, "row"), counted(counts.rows, "question"),
            counted(counts.dropped, "question"));
  return counts.bad > 0 ? static_cast<int>(ExitCode::bad_data) : 0;
}

}  // namespace hone::cli
