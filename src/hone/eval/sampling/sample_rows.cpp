#include "hone/eval/sampling/sample_rows.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/stable_hash.h"
#include "hone/data/datasets/write_rows.h"
#include "hone/data/row_report.h"

namespace hone::eval {
namespace {

struct SampledRow {
  data::Conversation question;  // without the row's own response
  std::optional<std::string> reference;
  std::string id;
  std::vector<std::string> answers;
  bool is_bad = false;
};

// The media and tools of a row, as ms-swift's sample writes them: images by their paths.
Json attachments_of(const data::Conversation& row) {
  auto columns = data::media_columns(row);
  if (!row.images.empty()) columns["images"] = row.images;
  if (!row.tools.empty()) columns["tools"] = row.tools;
  return columns;
}

// An id that depends on the row's content only, not on its position.
std::string row_id(const data::Conversation& row) {
  Json whole{{"messages", data::messages_json(row.messages)}, {"columns", row.extra}};
  whole.update(attachments_of(row));
  auto text = whole.dump(-1, ' ', false, Json::error_handler_t::replace);
  return fmt::format("{:016x}{:016x}", stable_hash(text), stable_hash(text, 0x9e3779b97f4a7c15ull));
}

SampledRow sampled_row(data::Conversation row) {
  SampledRow sampled{.question = {}, .reference = {}, .id = row_id(row), .answers = {}, .is_bad = false};
  if (!row.messages.empty() && row.messages.back().role == "assistant") {
    sampled.reference = row.messages.back().content;
    row.messages.pop_back();
  }
  sampled.question = std::move(row);
  return sampled;
}

std::map<std::string, std::vector<std::string>> read_caches(const std::vector<fs::path>& files) {
  std::map<std::string, std::vector<std::string>> caches;
  for (const auto& file : files) {
    if (!fs::exists(file)) {
      log::warning("the cache file {} does not exist", file.string());
      continue;
    }
    std::istringstream lines(read_file(file));
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      auto row = parse_json(line);
      bool sound = row && row->is_object() && row->contains("id") && row->contains("messages") && (*row)["messages"].is_array() &&
                   !(*row)["messages"].empty();
      if (!sound)
        throw UserError(ExitCode::bad_data, fmt::format("{}:{} is not a sampled row", file.string(), number),
                        "expected an object with id and messages");
      const auto& last = (*row)["messages"].back();
      if (last.is_object() && last.value("role", "") == "assistant" && last.value("content", Json()).is_string())
        caches[(*row)["id"].dump()].push_back(last["content"].get<std::string>());
    }
  }
  return caches;
}

Json output_row(const SampledRow& row, const std::string& answer, const std::string* rejected) {
  auto messages = data::messages_json(row.question.messages);
  messages.push_back({{"role", "assistant"}, {"content", answer}});
  Json line{{"messages", std::move(messages)}};
  if (row.question.extra.is_object())
    for (const auto& [name, value] : row.question.extra.items()) line[name] = value;
  line.update(attachments_of(row.question));
  if (rejected) line["rejected_response"] = *rejected;
  line["id"] = row.id;
  return line;
}

// Scores of all completions, the row's own last.
std::vector<double> scores_of(train::rl::Reward* reward, const SampledRow& row) {
  if (!reward) return {};
  auto question = row.question;
  if (!question.extra.is_object()) question.extra = Json::object();
  if (row.reference && !question.extra.contains("solution")) question.extra["solution"] = *row.reference;
  std::vector<train::rl::RewardInput> inputs;
  for (const auto& answer : row.answers) inputs.push_back({&question, answer, 0});
  if (row.reference) inputs.push_back({&question, *row.reference, 0});
  return reward->score(inputs);
}

std::string lines_of(const SampledRow& row, SelectionRewards& rewards, const SelectionConfig& config, SampleCounts& counts) {
  std::string lines;
  auto add = [&](const Json& line) {
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", ++counts.written;
  };
  if (!rewards.outcome && !rewards.process) {
    for (const auto& answer : row.answers) add(output_row(row, answer, nullptr));
    return lines;
  }
  auto chosen = select_answers(scores_of(rewards.outcome.get(), row), scores_of(rewards.process.get(), row), row.answers.size(),
                               row.reference.has_value(), config);
  if (!chosen) {
    ++counts.dropped;
    return lines;
  }
  auto text = [&](size_t i) -> const std::string& { return i < row.answers.size() ? row.answers[i] : *row.reference; };
  const auto& rejected = text(chosen->worst);
  for (auto i : chosen->best) add(output_row(row, text(i), text(i) == rejected ? nullptr : &rejected));
  return lines;
}

// Progress of an earlier run: finished batches and the bytes they wrote.
struct Progress {
  int64_t done = 0;
  uintmax_t bytes = 0;
};

Progress read_progress(const fs::path& state_file, const fs::path& partial, const SampleConfig& config) {
  if (!config.resume || !fs::exists(state_file) || !fs::exists(partial)) return {};
  auto state = read_config_file(state_file.string());
  if (!state.is_object() || state.value("file", "") != config.output_file) return {};
  Progress progress{state.value("index", int64_t{-1}) + 1, state.value("bytes", uintmax_t{0})};
  if (fs::file_size(partial) < progress.bytes)
    throw UserError(ExitCode::bad_data, fmt::format("{} is shorter than {} says", partial.string(), state_file.string()),
                    "delete both to start from scratch");
  return progress;
}

std::vector<SampledRow> read_batch(const data::ConversationSource& rows, int64_t first, int64_t last, data::RowReport& report) {
  std::vector<SampledRow> batch;
  for (int64_t i = first; i < last; ++i) {
    auto row = rows.at(i);
    if (!row) {
      report.bad_row(row.error());
      continue;
    }
    batch.push_back(sampled_row(std::move(*row)));
  }
  return batch;
}

}  // namespace

SampleCounts sample_rows(const data::ConversationSource& rows, const AnswerRows& answer, SelectionRewards& rewards,
                         const SampleConfig& config) {
  auto output = config.output_dir / config.output_file, partial = config.output_dir / (config.output_file + ".resume"),
       state_file = config.output_dir / "ckpt_state.json";
  fs::create_directories(config.output_dir);
  fs::create_directories(output.parent_path());
  auto caches = read_caches(config.cache_files);
  auto piece = rows.size() / config.pieces, begin = piece * config.piece;
  auto end = config.piece + 1 == config.pieces ? rows.size() : begin + piece;
  auto batches = (end - begin + config.batch_size - 1) / config.batch_size;
  if (config.batches > 0) batches = std::min(batches, config.batches);
  auto progress = read_progress(state_file, partial, config);
  if (progress.done > 0)
    fs::resize_file(partial, progress.bytes), log::info("{} batches are done already", progress.done);
  else
    write_file_atomically(partial, "");
  SampleCounts counts;
  data::RowReport report;
  ProgressBar bar("Sample", batches, progress.done);
  for (int64_t index = progress.done; index < batches; ++index) {
    auto first = begin + index * config.batch_size;
    auto batch = read_batch(rows, first, std::min(end, first + config.batch_size), report);
    std::vector<data::Conversation> questions;
    std::vector<size_t> asked;
    for (size_t i = 0; i < batch.size(); ++i) {
      auto known = caches.find(Json(batch[i].id).dump());
      if (known != caches.end() && static_cast<int64_t>(known->second.size()) == config.selection.num_return_sequences)
        batch[i].answers = known->second;
      else
        questions.push_back(batch[i].question), asked.push_back(i);
    }
    auto answers = questions.empty() ? RowCompletions() : answer(questions, first);
    for (size_t i = 0; i < asked.size(); ++i)
      if (answers[i])
        batch[asked[i]].answers = std::move(*answers[i]);
      else
        report.bad_row(answers[i].error()), batch[asked[i]].is_bad = true;
    std::erase_if(batch, [](const SampledRow& row) { return row.is_bad; });
    std::string lines;
    for (const auto& row : batch) {
      if (row.answers.empty())
        ++counts.dropped;
      else
        lines += lines_of(row, rewards, config.selection, counts);
      report.good_row();
    }
    counts.rows += static_cast<int64_t>(batch.size());
    if (!lines.empty()) append_line(partial, std::string_view(lines).substr(0, lines.size() - 1));
    progress.bytes += lines.size();
    write_file_atomically(state_file, Json{{"index", index}, {"bytes", progress.bytes}, {"file", config.output_file}}.dump());
    bar.update(index + 1, fmt::format("{} rows written", counts.written));
  }
  bar.finish();
  report.log_summary();
  counts.bad = report.bad();
  fs::rename(partial, output);
  fs::remove(state_file);
  return counts;
}

}  // namespace hone::eval
