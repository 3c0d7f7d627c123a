#include "hone/data/preview.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "hone/base/thread_pool.h"
#include "hone/base/usable_cores.h"
#include "hone/data/batches/batch_sampler.h"
#include "hone/data/encode/default_template.h"
#include "hone/data/rollout_prompts.h"

namespace hone::data {
namespace {

struct RowSummary {
  std::string problem;
  int64_t length = 0, longest = 0, learned = 0;
};

// One row encoded twice for a preview: as in the run, and without a length limit to measure its full length.
class RowView {
 public:
  RowView(const ConversationSource& source, const PreviewConfig& config, std::shared_ptr<const Encoder> encoder,
          std::shared_ptr<const Encoder> unlimited)
      : source_(source), config_(config), encoder_(std::move(encoder)), unlimited_(std::move(unlimited)) {}

  RowSummary summarize(int64_t row) const {
    auto conversation = source_.at(row);
    if (!conversation) return {.problem = conversation.error()};
    auto samples = encode(*unlimited_, *conversation, row);
    if (!samples) return {.problem = samples.error()};
    RowSummary summary;
    for (const auto& sample : *samples) {
      auto length = static_cast<int64_t>(sample.ids.size());
      summary.length += length;
      summary.longest = std::max(summary.longest, length);
      summary.learned += std::count_if(sample.labels.begin(), sample.labels.end(), [](auto label) { return label != kIgnore; });
    }
    if (is_too_long(summary))
      if (auto cut = encode(*encoder_, *conversation, row); !cut) summary.problem = cut.error();
    return summary;
  }

  bool is_too_long(const RowSummary& summary) const {
    return encoder_->config().max_length > 0 && summary.longest > encoder_->config().max_length;
  }

  std::optional<DatasetPreview::Row> shown(int64_t row) const {
    auto conversation = source_.at(row);
    if (!conversation) return std::nullopt;
    auto samples = encode(*encoder_, *conversation, row);
    if (!samples) return std::nullopt;
    return DatasetPreview::Row{row, std::move(*samples), std::move(conversation->extra)};
  }

 private:
  Result<SamplePack> encode(const Encoder& encoder, const Conversation& conversation, int64_t row) const {
    if (!config_.prompts) return encode_conversation(encoder, conversation, config_.loader, row);
    auto question = conversation;
    auto prompt = encode_rollout_prompt(encoder, question, config_.most_tokens);
    if (!prompt) return Error{prompt.error()};
    Sample sample;
    sample.labels.assign(prompt->ids.size(), kIgnore);
    sample.ids = std::move(prompt->ids);
    sample.pictures = std::move(prompt->pictures);
    sample.sounds = std::move(prompt->sounds);
    sample.origin = conversation.origin;
    sample.row = row;
    return SamplePack{std::move(sample)};
  }

  const ConversationSource& source_;
  const PreviewConfig& config_;
  std::shared_ptr<const Encoder> encoder_, unlimited_;
};

std::vector<RowSummary> summarize_rows(const RowView& view, int64_t count) {
  std::vector<RowSummary> rows(static_cast<size_t>(count));
  ThreadPool pool(static_cast<size_t>(usable_cores()));
  std::vector<std::future<void>> jobs;
  constexpr int64_t kChunk = 64;
  for (int64_t begin = 0; begin < count; begin += kChunk)
    jobs.push_back(pool.submit([&, begin] {
      for (int64_t row = begin; row < std::min(begin + kChunk, count); ++row)
        rows[static_cast<size_t>(row)] = view.summarize(row);
    }));
  for (auto& job : jobs) job.wait();
  for (auto& job : jobs) job.get();
  return rows;
}

}  // namespace

LengthSummary summarize(std::vector<int64_t> lengths, size_t bars) {
  LengthSummary summary;
  if (lengths.empty()) return summary;
  std::sort(lengths.begin(), lengths.end());
  summary.count = static_cast<int64_t>(lengths.size());
  summary.min = lengths.front();
  summary.max = lengths.back();
  summary.total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  summary.mean = static_cast<double>(summary.total) / static_cast<double>(summary.count);
  // Nearest rank: the smallest length that at least this share of the rows does not exceed.
  auto at = [&](double share) {
    return lengths[static_cast<size_t>(std::ceil(share * static_cast<double>(lengths.size()))) - 1];
  };
  summary.p50 = at(0.5);
  summary.p95 = at(0.95);
  int64_t width = std::max<int64_t>((summary.max - summary.min + static_cast<int64_t>(bars)) / static_cast<int64_t>(bars), 1);
  for (int64_t from = summary.min; from <= summary.max; from += width) {
    auto begin = std::lower_bound(lengths.begin(), lengths.end(), from),
         end = std::lower_bound(lengths.begin(), lengths.end(), from + width);
    summary.histogram.push_back({from, from + width, end - begin});
  }
  return summary;
}

namespace {

// Counts consecutive placeholders of a medium, by the position of the first.
std::map<size_t, int64_t> placeholder_runs(const Sample& sample) {
  std::map<size_t, int64_t> runs;
  auto add = [&](const auto& medium, int64_t tokens) {
    size_t begin = medium.first;
    for (int64_t i = 0; i < tokens; ++i) {
      if (i > 0 && medium.position(i) != medium.position(i - 1) + 1) begin = medium.position(i);
      ++runs[begin];
    }
  };
  for (const auto& picture : sample.pictures) add(picture, picture.geometry.tokens);
  for (const auto& sound : sample.sounds) add(sound, sound.tokens);
  return runs;
}

}  // namespace

std::vector<TextSpan> text_runs(const text::Tokenizer& tokenizer, const Sample& sample) {
  std::vector<TextSpan> runs;
  const auto placeholders = placeholder_runs(sample);
  for (size_t begin = 0; begin < sample.ids.size();) {
    auto kind = [&](size_t i) { return std::pair(sample.labels[i] != kIgnore, tokenizer.is_special(sample.ids[i])); };
    if (const auto found = placeholders.find(begin); found != placeholders.end()) {
      const int64_t count = found->second;
      const auto one = tokenizer.decode(std::span(sample.ids).subspan(begin, 1), false);
      runs.push_back({fmt::format("{}×{}", one, count), kind(begin).first, true});
      begin += static_cast<size_t>(count);
      continue;
    }
    size_t end = begin + 1;
    while (end < sample.ids.size() && kind(end) == kind(begin) && !placeholders.contains(end)) ++end;
    runs.push_back(
        {tokenizer.decode(std::span(sample.ids).subspan(begin, end - begin), false), kind(begin).first, kind(begin).second});
    begin = end;
  }
  return runs;
}

DatasetPreview preview(const ConversationSource& source, const PreviewConfig& config, const EncodeConfig& encode,
                       std::shared_ptr<const text::Tokenizer> tokenizer, const ModelIdentity& model, RowReport& report) {
  auto encoder = Encoder::make(encode, tokenizer, model);
  auto without_limit = encode;
  without_limit.max_length = 0;
  if (without_limit.template_name.empty())
    without_limit.template_name = default_template(without_limit.dialect, model);  // selected and reported above
  RowView view(source, config, encoder, Encoder::make(without_limit, tokenizer, model));

  DatasetPreview preview{.scanned = std::min(config.scan, source.size())};
  std::vector<int64_t> lengths, learned;
  auto rows = summarize_rows(view, preview.scanned);
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto& summary = rows[row];
    preview.too_long += summary.length > 0 && view.is_too_long(summary);
    if (summary.length > 0) lengths.push_back(summary.length), learned.push_back(summary.learned);
    if (!summary.problem.empty()) {
      report.bad_row(summary.problem);
      continue;
    }
    report.good_row();
    preview.without_target += !config.loader.groups && !config.prompts && summary.learned == 0;
    if (static_cast<int64_t>(preview.rows.size()) == config.shown) continue;
    if (auto shown = view.shown(static_cast<int64_t>(row))) preview.rows.push_back(std::move(*shown));
  }
  preview.lengths = summarize(std::move(lengths));
  preview.is_trained = summarize(std::move(learned));
  return preview;
}

}  // namespace hone::data
