// infer and chat: an interactive conversation, or generation for a whole dataset.
#include <chrono>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/strings/counted.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/chat.h"
#include "hone/cli/commands.h"
#include "hone/cli/commands/infer_pooling.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/reply_generator.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/hub_options.h"
#include "hone/data/datasets/write_rows.h"
#include "hone/data/row_report.h"
#include "hone/serve/openai/format.h"
#include "hone/train/evaluation/evaluate.h"

namespace hone::cli {
namespace {

using data::Conversation;

// The media that the model takes in addition to text.
std::vector<std::string> media_kinds(const data::Encoder& encoder) {
  std::vector<std::string> kinds;
  if (encoder.pictures()) kinds.push_back("image");
  if (encoder.pictures() && encoder.pictures()->video_pad >= 0) kinds.push_back("video");
  if (encoder.sounds()) kinds.push_back("audio");
  return kinds;
}

// Shows the response as it is generated. Once `stops` is true, it ends with what it has.
std::string stream_response(engine::Engine& engine, engine::Request request, const std::function<void(std::string_view)>& show,
                            const std::function<bool()>& stops) {
  std::string text;
  const auto id = engine.add(std::move(request));
  for (bool stopped = false;;) {
    if (!stopped && stops()) engine.cancel(id), stopped = true;
    for (const auto& output : engine.step()) {
      if (output.id != id) continue;
      if (!output.text.empty()) show(output.text);
      text += output.text;
      if (output.finish == engine::FinishReason::none) continue;
      if (output.model_broken)
        throw UserError(ExitCode::non_finite, output.error, "take an earlier checkpoint, or the model without the adapter");
      if (!output.error.empty()) log::warning("no answer: {}", output.error);
      return text;
    }
  }
}

int run_chat(const GenerationArguments& args, ReplyGenerator& answerer) {
  bool stream = !args.stream.has_value() || *args.stream;
  auto answer = [&](const Conversation& conversation, const std::function<void(std::string_view)>& show,
                    const std::function<bool()>& stops) {
    auto request = answerer.request_for(conversation).or_throw(ExitCode::bad_data, "prompt");
    auto on_text = [&](std::string_view piece) {
      if (stream) show(piece);
    };
    auto text = stream_response(answerer.engine(), std::move(request), on_text, stops);
    if (!stream) show(text);
    return text;
  };
  auto style = args.uses_factory_dialect() ? factory_manner() : swift_manner();
  style.media = media_kinds(*answerer.encoder());
  return chat(style, {}, answer);
}

// The last response of a row is the reference; everything before it is the prompt.
std::string take_reference(Conversation& conversation) {
  std::string reference;
  while (!conversation.messages.empty() && conversation.messages.back().role == "assistant") {
    reference = conversation.messages.back().content;
    conversation.messages.pop_back();
  }
  return reference;
}

// In OpenAI's format, as in ms-swift; null if they were not requested.
Json logprobs_of(const engine::Completion& answer, const text::Tokenizer& tokenizer) {
  if (answer.logprobs.empty()) return nullptr;
  Json content = Json::array();
  const text::TokenBytes bytes(tokenizer);
  for (const auto& position : answer.logprobs) content.push_back(serve::chat_logprob(position, bytes));
  return {{"content", std::move(content)}};
}

// With the row's media and tools.
Json result_row(const Conversation& question, const engine::Completion& answer, const std::string& reference,
                const text::Tokenizer& tokenizer) {
  Json messages = Json::array();
  for (const auto& message : question.messages) messages.push_back({{"role", message.role}, {"content", message.content}});
  messages.push_back({{"role", "assistant"}, {"content", answer.text}});
  Json row{{"response", answer.text},
           {"labels", reference.empty() ? Json() : Json(reference)},
           {"logprobs", logprobs_of(answer, tokenizer)},
           {"messages", messages}};
  if (!question.tools.empty()) row["tools"] = question.tools;
  row.update(data::media_columns(question));
  return row;
}

void show_question(const Conversation& question, const std::string& reference) {
  fmt::print("\n[QUERY] {}\n", question.messages.empty() ? "" : question.messages.back().content);
  if (!reference.empty()) fmt::print("[LABELS] {}\n", reference);
  fmt::print("[RESPONSE] ");
}

void show_piece(size_t, std::string_view piece) {
  fmt::print("{}", piece);
  std::fflush(stdout);
}

// "rouge-1" … "bleu-4": means in percent.
void add_text_scores(const std::vector<train::Prediction>& answers, Json& summary) {
  train::SingleProcess alone;
  const std::string prefix = "score";
  const auto means = train::text_metrics(answers, alone, prefix);
  for (const auto& [name, mean] : means.items()) summary[name.substr(prefix.size() + 1)] = mean;
}

// Prints outputs that cannot be written to the file, so that they are not lost.
class ResultLines {
 public:
  explicit ResultLines(fs::path path) : path_(std::move(path)) {}
  void add(const std::string& line) {
    if (!failure_) try {
        return append_line(path_, line);
      } catch (const UserError& error) {
        failure_ = error;
      }
    fmt::print("{}\n", line);
  }
  void require_written() const {
    if (failure_)
      throw UserError(failure_->code(), std::string(failure_->what()) + "; the output since then is printed above",
                      failure_->hint());
  }

 private:
  fs::path path_;
  std::optional<UserError> failure_;
};

int run_batch(const Options& options, ReplyGenerator& answerer, const data::ConversationSource& rows, const fs::path& path) {
  const DataArguments data_args(options);
  const GenerationArguments generation_args(options);
  ResultLines results(path);
  auto limit = data_args.val_dataset_sample.has_value() ? *data_args.val_dataset_sample : rows.size();
  auto count = std::min(limit, rows.size());
  // Rows that are read, generated and written together; the engine batches them.
  int64_t at_a_time = generation_args.write_batch_size.exists() ? *generation_args.write_batch_size : 1000;
  if (at_a_time <= 0) at_a_time = std::max<int64_t>(count, 1);
  bool shows = generation_args.stream.is_set() && *generation_args.stream;  // as in ms-swift: one row after the other, streamed
  if (shows) at_a_time = 1;
  data::RowReport report;
  std::vector<train::Prediction> scored;
  auto metric = *generation_args.metric;
  auto began = std::chrono::steady_clock::now();
  int64_t prompt_tokens = 0, answer_tokens = 0, skipped = 0, exact = 0;
  std::optional<ProgressBar> bar;
  if (!shows) bar.emplace("Infer", count);  // printed outputs show the progress, and a progress bar would overwrite them
  int64_t done = 0;
  for (int64_t first = 0; first < count; first += at_a_time) {
    std::vector<Conversation> questions;
    std::vector<std::string> references;
    std::vector<engine::Request> requests;
    for (int64_t i = first; i < std::min(first + at_a_time, count); ++i) {
      auto row = rows.at(i);
      auto reference = row ? take_reference(*row) : "";
      auto request = row ? answerer.request_for(*row, static_cast<uint64_t>(i)) : Result<engine::Request>(Error{row.error()});
      if (!request) {
        report.bad_row(request.error());
        ++skipped, ++done;
        continue;
      }
      report.good_row();
      references.push_back(std::move(reference));
      requests.push_back(std::move(*request));
      prompt_tokens += static_cast<int64_t>(requests.back().prompt.size());
      questions.push_back(std::move(*row));
    }
    if (shows && !questions.empty()) show_question(questions.front(), references.front());
    auto answers = engine::generate(answerer.engine(), std::move(requests), shows ? show_piece : engine::OnText(), [&](size_t) {
      ++done;
      if (bar) bar->update(done, fmt::format("{} tokens", answerer.engine().stats().generated_tokens));
    });
    if (shows && !answers.empty()) show_piece(0, "\n");
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i].error.empty()) log::warning("{}: no answer: {}", questions[i].origin.str(), answers[i].error);
      results.add(result_row(questions[i], answers[i], references[i], *answerer.tokenizer())
                      .dump(-1, ' ', false, Json::error_handler_t::replace));
      answer_tokens += static_cast<int64_t>(answers[i].tokens.size());
      exact += answers[i].text == references[i];
      if (metric == "rouge") scored.push_back({"", answers[i].text, references[i]});
    }
    results.require_written();
  }
  if (bar) bar->finish();
  report.log_summary();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  auto samples = count - skipped;
  Json summary{{"num_prompt_tokens", prompt_tokens},
               {"num_generated_tokens", answer_tokens},
               {"num_samples", samples},
               {"runtime", seconds},
               {"samples/s", static_cast<double>(samples) / seconds},
               {"tokens/s", static_cast<double>(answer_tokens) / seconds}};
  if (metric == "acc") summary["acc"] = samples ? static_cast<double>(exact) / static_cast<double>(samples) : 0.0;
  if (metric == "rouge") add_text_scores(scored, summary);
  fmt::print("{}\n", summary.dump());
  log::info("{} written to {}", counted(samples, "completion"), path.string());
  return skipped ? static_cast<int>(ExitCode::bad_data) : 0;
}

}  // namespace

int infer_command(const Options& options) {
  auto config = dataset_config(options);
  config.prompts_only = true;                          // a row may be a prompt alone
  config.encoded.clear(), config.val_encoded.clear();  // options of a checkpoint's args.json: token ids contain no prompt
  bool batch =
      !config.val_datasets.empty() || (!config.datasets.empty() && (config.split_dataset_ratio > 0 || config.val_size > 0));
  data::OpenedData opened;
  if (batch) opened = data::open_datasets(config);
  auto folder = model_folder(options);
  if (auto task = task_config(options, folder); !task.is_generative())
    return infer_pooling_rows(options, task, folder, batch ? opened.validation.get() : nullptr);
  const auto path = batch ? result_file(options, folder) : fs::path();
  ReplyGenerator answerer(options);
  return batch ? run_batch(options, answerer, *opened.validation, path) : run_chat(GenerationArguments(options), answerer);
}

}  // namespace hone::cli
