#include "hone/data/preview.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hone/base/thread_pool.h"
#include "hone/base/usable_cores.h"

namespace hone::data {
namespace {

struct Looked {
  std::string problem;
  int64_t length = 0, learned = 0;
};

Result<std::vector<Sample>> samples_of(const Encoder& encoder, const Conversation& conversation, const std::optional<GroupConfig>& groups) {
  return groups ? encode_group(encoder, conversation, *groups) : encoder.encode_parts(conversation);
}

Looked look(const ConversationSource& source, const Encoder& unlimited, const std::optional<GroupConfig>& groups, int64_t row) {
  auto conversation = source.at(row);
  if (!conversation) return {.problem = conversation.error()};
  auto parts = samples_of(unlimited, *conversation, groups);
  if (!parts) return {.problem = parts.error()};
  Looked looked;
  for (const auto& sample : *parts) {
    looked.length += static_cast<int64_t>(sample.ids.size());
    looked.learned += std::count_if(sample.labels.begin(), sample.labels.end(), [](auto label) { return label != kIgnore; });
  }
  return looked;
}

std::vector<Looked> look_at_all(const ConversationSource& source, const Encoder& unlimited, const std::optional<GroupConfig>& groups, int64_t count) {
  std::vector<Looked> rows(static_cast<size_t>(count));
  ThreadPool pool(static_cast<size_t>(usable_cores()));
  std::vector<std::future<void>> jobs;
  constexpr int64_t kChunk = 64;
  for (int64_t begin = 0; begin < count; begin += kChunk)
    jobs.push_back(pool.submit([&, begin] {
      for (int64_t row = begin; row < std::min(begin + kChunk, count); ++row) rows[static_cast<size_t>(row)] = look(source, unlimited, groups, row);
    }));
  for (auto& job : jobs) job.wait();
  for (auto& job : jobs) job.get();
  return rows;
}

}  // namespace

LengthSummary summarise(std::vector<int64_t> lengths, size_t bars) {
  LengthSummary summary;
  if (lengths.empty()) return summary;
  std::sort(lengths.begin(), lengths.end());
  summary.count = static_cast<int64_t>(lengths.size());
  summary.min = lengths.front();
  summary.max = lengths.back();
  summary.total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  summary.mean = static_cast<double>(summary.total) / static_cast<double>(summary.count);
  // Nearest rank: the smallest length that at least this share of the rows does not exceed.
  auto at = [&](double share) { return lengths[static_cast<size_t>(std::ceil(share * static_cast<double>(lengths.size()))) - 1]; };
  summary.p50 = at(0.5);
  summary.p95 = at(0.95);
  int64_t width = std::max<int64_t>((summary.max - summary.min + static_cast<int64_t>(bars)) / static_cast<int64_t>(bars), 1);
  for (int64_t from = summary.min; from <= summary.max; from += width) {
    auto begin = std::lower_bound(lengths.begin(), lengths.end(), from), end = std::lower_bound(lengths.begin(), lengths.end(), from + width);
    summary.histogram.push_back({from, from + width, end - begin});
  }
  return summary;
}

std::vector<TextRun> text_runs(const text::Tokenizer& tokenizer, const Sample& sample) {
  std::vector<TextRun> runs;
  for (size_t begin = 0; begin < sample.ids.size();) {
    auto kind = [&](size_t i) { return std::pair(sample.labels[i] != kIgnore, tokenizer.is_special(sample.ids[i])); };
    size_t end = begin + 1;
    while (end < sample.ids.size() && kind(end) == kind(begin)) ++end;
    runs.push_back({tokenizer.decode(std::span(sample.ids).subspan(begin, end - begin), false), kind(begin).first, kind(begin).second});
    begin = end;
  }
  return runs;
}

DatasetPreview preview(const ConversationSource& source, const PreviewConfig& config, std::shared_ptr<const text::Tokenizer> tokenizer,
                       const ModelIdentity& model, RowReport& report) {
  auto encoder = Encoder::make(config.encode, tokenizer, model);
  auto without_limit = config.encode;
  without_limit.max_length = 0;
  if (without_limit.template_name.empty()) without_limit.template_name = default_template(without_limit.dialect, model);  // chosen and said above
  auto unlimited = Encoder::make(without_limit, tokenizer, model);

  DatasetPreview preview{.scanned = std::min(config.scan, source.size())};
  std::vector<int64_t> lengths, learned;
  auto rows = look_at_all(source, *unlimited, config.groups, preview.scanned);
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto& looked = rows[row];
    if (!looked.problem.empty()) {
      report.bad_row(looked.problem);
      continue;
    }
    report.good_row();
    lengths.push_back(looked.length);
    learned.push_back(looked.learned);
    preview.too_long += config.encode.max_length > 0 && looked.length > config.encode.max_length;
    preview.without_target += !config.groups && looked.learned == 0;
    if (static_cast<int64_t>(preview.rows.size()) == config.shown) continue;
    auto conversation = source.at(static_cast<int64_t>(row));
    if (auto samples = samples_of(*encoder, *conversation, config.groups)) preview.rows.push_back({static_cast<int64_t>(row), std::move(*samples)});
  }
  preview.lengths = summarise(std::move(lengths));
  preview.learned = summarise(std::move(learned));
  return preview;
}

}  // namespace hone::data
