#include "hone/cli/commands/infer_pooling.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/chat.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/data/encode/pooling_rows.h"
#include "hone/data/row_report.h"
#include "hone/engine/request.h"
#include "hone/train/evaluation/pooling_runner.h"
#include "hone/tuner/adapter.h"

namespace hone::cli {
namespace {

constexpr int64_t kTextsAtOnce = 16;

std::unique_ptr<model::CausalLM> load_pooling_model(const Options& options, const std::filesystem::path& folder,
                                                    const text::Tokenizer& tokenizer) {
  auto model = load_model(options, folder, tokenizer);
  auto adapters = *ModelArguments(options).adapters;
  for (size_t i = 0; i < adapters.size(); ++i) {
    tuner::AttachOptions attach;
    attach.name = i == 0 ? "default" : fmt::format("adapter{}", i);
    auto adapter = tuner::load_adapter(*model, adapters[i], attach);
    if (i + 1 < adapters.size() || *GenerationArguments(options).merge_lora) tuner::merge_adapter(*model, adapter);
  }
  return model;
}

Json pooling_row(const data::Conversation& row, const train::PoolingOutput& output) {
  Json messages = Json::array();
  for (const auto& message : row.messages) messages.push_back({{"role", message.role}, {"content", message.content}});
  messages.push_back({{"role", "assistant"}, {"content", output.content}});
  Json label = row.extra.is_object() ? row.extra.value("label", Json()) : Json();
  Json result{{"response", output.content}, {"labels", label}, {"logprobs", output.logprobs}, {"messages", messages}};
  if (row.extra.is_object())
    for (const auto& [name, value] : row.extra.items())
      if (name != "label" && !result.contains(name)) result[name] = value;
  return result;
}

// The share of rows whose prediction equals the label; nothing if the rows have no labels.
struct Agreement {
  int64_t right = 0, labelled = 0;

  void note(const Json& row) {
    if (row["labels"].is_null()) return;
    ++labelled;
    right += row["labels"] == row["response"];
  }
};

class PoolingRowWriter {
 public:
  PoolingRowWriter(const Options& options, const train::TaskConfig& task, const std::filesystem::path& folder)
      : tokenizer_(text::load_tokenizer(folder, new_tokens(options))),
        model_(load_pooling_model(options, folder, *tokenizer_)),
        encoder_(data::Encoder::make(encode_config(options, 0), tokenizer_, data::read_model_identity(folder))),
        runner_(*model_, task, *tokenizer_, *GenerationArguments(options).reranker_use_activation),
        top_n_(GenerationArguments(options).top_logprobs.value_or(0)),
        decides_(task.task == train::Task::decision) {}

  data::Sample encoded(const data::Conversation& text) const {
    return (decides_ ? data::encode_decision(*encoder_, text) : data::encode_pooling_text(*encoder_, text))
        .or_throw(ExitCode::bad_data, "text");
  }
  std::vector<train::PoolingOutput> operator()(const std::vector<data::Sample>& samples) const {
    auto outputs = decides_ ? runner_.decide(samples) : runner_(samples, top_n_);
    for (const auto& output : outputs)
      if (output.scores.isnan().any().item<bool>())
        throw UserError(ExitCode::non_finite, engine::kModelComputesNan,
                        "take an earlier checkpoint, or the model without the adapter");
    return outputs;
  }

 private:
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<model::CausalLM> model_;
  std::shared_ptr<const data::Encoder> encoder_;
  train::PoolingRunner runner_;
  int64_t top_n_;
  bool decides_;
};

int infer_pooling_interactive(const PoolingRowWriter& writer) {
  auto answer = [&](const data::Conversation& conversation, const std::function<void(std::string_view)>& show,
                    const std::function<bool()>&) {
    data::Conversation last;
    last.messages = {conversation.messages.back()};
    auto text = writer({writer.encoded(last)})[0].content.dump();
    show(text);
    return text;
  };
  return chat(swift_manner(), {}, answer);
}

int infer_pooling_dataset(const DataArguments& args, const train::TaskConfig& task, const PoolingRowWriter& writer,
                          const data::ConversationSource& rows, const std::filesystem::path& path) {
  auto limit = args.val_dataset_sample.has_value() ? *args.val_dataset_sample : rows.size();
  auto count = std::min(limit, rows.size());
  auto began = std::chrono::steady_clock::now();
  ProgressBar bar("Infer", count);
  data::RowReport report;
  Agreement agreement;
  int64_t tokens = 0, skipped = 0;
  for (int64_t first = 0; first < count; first += kTextsAtOnce) {
    std::vector<data::Conversation> texts;
    std::vector<data::Sample> samples;
    for (int64_t i = first; i < std::min(first + kTextsAtOnce, count); ++i) {
      auto row = rows.at(i);
      if (!row) {
        report.bad_row(row.error());
        ++skipped;
        continue;
      }
      samples.push_back(writer.encoded(*row));
      tokens += static_cast<int64_t>(samples.back().ids.size());
      report.good_row();
      texts.push_back(std::move(*row));
    }
    auto outputs = writer(samples);
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto row = pooling_row(texts[i], outputs[i]);
      agreement.note(row);
      append_line(path, row.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    bar.update(std::min(first + kTextsAtOnce, count));
  }
  bar.finish();
  report.log_summary();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  auto written = count - skipped;
  Json summary{{"num_prompt_tokens", tokens},
               {"num_samples", written},
               {"runtime", seconds},
               {"samples/s", static_cast<double>(written) / seconds}};
  bool classes = task.task == train::Task::seq_cls && task.problem != train::ProblemType::regression;
  if (classes && agreement.labelled)
    summary["acc"] = static_cast<double>(agreement.right) / static_cast<double>(agreement.labelled);
  fmt::print("{}\n", summary.dump());
  log::info("{} results written to {}", written, path.string());
  return skipped ? static_cast<int>(ExitCode::bad_data) : 0;
}

std::filesystem::path chosen_result_file(const Options& options, const std::filesystem::path& folder) {
  const GenerationArguments generation_args(options);
  const ModelArguments model_args(options);
  if (generation_args.result_path.has_value()) return *generation_args.result_path;
  auto base = model_args.adapters->empty() ? fs::path("result") / folder.filename() : fs::path(model_args.adapters->back());
  char stamp[32];
  auto now = std::time(nullptr);
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", std::localtime(&now));
  return base / "infer_result" / fmt::format("{}.jsonl", stamp);
}

// Removes the file if it did not exist before.
void require_writable(const std::filesystem::path& path) {
  if (!fs::exists(path)) {
    write_file_atomically(path, "\n");  // a full disk may accept an empty file but no line; a failure leaves no file behind
    fs::remove(path);
  } else if (::access(path.c_str(), W_OK) != 0) {
    throw UserError(ExitCode::usage, fmt::format("{}: cannot write: {}", path.string(), std::strerror(errno)),
                    "check its rights, or name another file with --result_path");
  }
}

}  // namespace

std::filesystem::path result_file(const Options& options, const std::filesystem::path& folder) {
  auto path = chosen_result_file(options, folder);
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  require_writable(path);
  return path;
}

int infer_pooling_rows(const Options& options, const train::TaskConfig& task, const std::filesystem::path& folder,
                       const data::ConversationSource* rows) {
  if (task.task == train::Task::decision && !rows)
    throw UserError(ExitCode::usage, "decision models take records, not interactive input", "name them with --val_dataset");
  const auto path = rows ? result_file(options, folder) : fs::path();
  PoolingRowWriter writer(options, task, folder);
  return rows ? infer_pooling_dataset(DataArguments(options), task, writer, *rows, path) : infer_pooling_interactive(writer);
}

}  // namespace hone::cli
