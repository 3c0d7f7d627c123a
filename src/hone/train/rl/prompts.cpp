#include "hone/train/rl/prompts.h"

#include <atomic>

#include "hone/base/error.h"
#include "hone/base/thread_pool.h"
#include "hone/base/usable_cores.h"
#include "hone/data/batches/permutation.h"
#include "hone/data/rollout_prompts.h"
#include "hone/train/rl/rewards/reward.h"
#include "hone/train/rl/rollout_engine.h"
#include "hone/train/rl/teacher_prompt.h"

namespace hone::train::rl {
namespace {

std::optional<Error> missing_column(const data::Conversation& row, const std::vector<RequiredColumn>& columns) {
  for (const auto& [name, reader] : columns) {
    const bool is_there = row.extra.is_object() && row.extra.contains(name);
    if (is_there && !row.extra[name].is_null()) continue;
    const auto found = is_there ? fmt::format("\"{}\" is null", name) : fmt::format("no column \"{}\"", name);
    return data::row_error(data::RowProblem::columns, row.origin.str(),
                           fmt::format("{0}, which {1} compares completions with; add it, or name the column that "
                                       "holds it: `columns` '{{\"your_column\": \"{2}\"}}'",
                                       found, reader, name));
  }
  return std::nullopt;
}

}  // namespace

data::Sample Prompt::completed(const std::vector<text::TokenId>& completion, const std::vector<char>& loss_mask) const {
  data::Sample sample;
  sample.ids = ids;
  sample.labels.assign(ids.size(), data::kIgnore);
  sample.ids.insert(sample.ids.end(), completion.begin(), completion.end());
  for (size_t i = 0; i < completion.size(); ++i)
    sample.labels.push_back(loss_mask.empty() || loss_mask[i] ? completion[i] : data::kIgnore);
  sample.pictures = pictures;
  sample.sounds = sounds;
  sample.origin = question.origin;
  sample.row = row;
  return sample;
}

std::shared_ptr<const PromptMedia> Prompt::media() const {
  return has_media() ? std::make_shared<const PromptMedia>(completed({}), sources) : nullptr;
}

Result<Prompt> Prompts::read(int64_t row) const {
  auto conversation = rows_->at(row);
  if (!conversation) return Error{conversation.error()};
  if (auto problem = missing_column(*conversation, rules_.columns)) return std::move(*problem);
  if (rules_.reads_test_cases)
    if (auto problem = problem_of_test_cases(*conversation)) return std::move(*problem);
  if (rules_.check) rules_.check(*conversation);
  auto prompt = data::encode_rollout_prompt(*encoder_, *conversation, rules_.most_tokens);
  if (!prompt) return Error{prompt.error()};
  if (rules_.reads_teacher_prompts && has_teacher_prompt(*conversation))
    if (auto problem = teacher_prompt_problem(*encoder_, *conversation)) return std::move(*problem);
  data::MediaSources sources;
  if (!prompt->pictures.empty() || !prompt->sounds.empty()) {
    auto marked = *conversation;
    data::reserve_tags(*encoder_, marked);
    sources = data::media_sources(marked);
  }
  return Prompt{row,
                std::move(*conversation),
                std::move(prompt->ids),
                std::move(prompt->pictures),
                std::move(prompt->sounds),
                std::move(sources)};
}

Prompts::Prompts(std::shared_ptr<const data::ConversationSource> rows, std::shared_ptr<const data::Encoder> encoder,
                 data::RowReport& report, size_t threads, PromptRules rules)
    : rows_(std::move(rows)), encoder_(std::move(encoder)), rules_(std::move(rules)) {
  constexpr int64_t kChunk = 64;
  std::vector<Result<int64_t>> lengths(static_cast<size_t>(rows_->size()), Error{});
  std::atomic<bool> has_media = false;
  {
    ThreadPool pool(threads ? threads : static_cast<size_t>(usable_cores()));
    std::vector<std::future<void>> jobs;
    for (int64_t begin = 0; begin < rows_->size(); begin += kChunk)
      jobs.push_back(pool.submit([this, &lengths, &has_media, begin] {
        for (int64_t row = begin; row < std::min(begin + kChunk, rows_->size()); ++row) {
          auto prompt = read(row);
          if (prompt && prompt->has_media()) has_media = true;
          lengths[static_cast<size_t>(row)] =
              prompt ? Result<int64_t>(static_cast<int64_t>(prompt->ids.size())) : Error{prompt.error()};
        }
      }));
    for (auto& job : jobs) job.wait();
    for (auto& job : jobs) job.get();
  }
  for (int64_t row = 0; row < rows_->size(); ++row) {
    const auto& length = lengths[static_cast<size_t>(row)];
    if (!length) {
      report.bad_row(length.error());
      continue;
    }
    report.good_row(*length);
    usable_.push_back(row);
    longest_ = std::max(longest_, *length);
  }
  has_media_ = has_media;
  if (usable_.empty())
    throw UserError(ExitCode::bad_data, "the dataset has no usable row\n" + report.summary(),
                    "check the columns, the template and `max_length`");
}

std::optional<Prompt> Prompts::find(int64_t row) const {
  auto prompt = read(row);
  if (!prompt) return std::nullopt;
  return std::move(*prompt);
}

Prompt Prompts::load(int64_t row) const {
  auto prompt = read(row);
  HONE_CHECK(prompt.ok(), "a row that could be encoded no longer can: {}", prompt.error());
  return std::move(*prompt);
}

Prompt Prompts::shuffled(int64_t index, int64_t epoch, uint64_t seed) const {
  data::Permutation order(static_cast<uint64_t>(count()), seed, static_cast<uint64_t>(epoch));
  return load(usable_[static_cast<size_t>(order(static_cast<uint64_t>(index % count())))]);
}

}  // namespace hone::train::rl
