#include "hone/data/batches/pack_rows.h"

#include <algorithm>
#include <future>
#include <numeric>

#include "hone/base/error.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

// Reports in file order, independent of threads and shuffling: `strict` stops at the first invalid row.
void report_in_file_order(std::vector<std::string> problems, RowReport& report) {
  std::erase(problems, "");
  std::stable_sort(problems.begin(), problems.end(), stands_before);
  for (const auto& problem : problems) report.bad_row(problem);
}

std::vector<SpanPack> split_into_blocks(const std::vector<TokenSpan>& slices, const std::vector<int64_t>& lengths,
                                        int64_t capacity, int64_t window) {
  std::vector<SpanPack> blocks;
  SpanPack open;
  int64_t used = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (i % static_cast<size_t>(window) == 0) open.clear(), used = 0;
    for (int64_t at = 0; at < lengths[i];) {
      int64_t take = std::min(capacity - used, lengths[i] - at);
      open.push_back({slices[i].row, slices[i].part, static_cast<size_t>(at), static_cast<size_t>(at + take)});
      at += take;
      used += take;
      if (used == capacity) blocks.push_back(std::exchange(open, {})), used = 0;
    }
  }
  return blocks;
}

}  // namespace

RowLengths row_lengths(const RowEncoder& rows, RowReport& report, ThreadPool& pool) {
  RowLengths lengths(static_cast<size_t>(rows.rows()));
  std::vector<std::string> problems(lengths.size());
  std::vector<std::future<void>> jobs;
  constexpr int64_t kChunk = 64;
  for (int64_t begin = 0; begin < rows.rows(); begin += kChunk)
    jobs.push_back(pool.submit([&, begin] {
      for (int64_t row = begin; row < std::min(begin + kChunk, rows.rows()); ++row) {
        auto encoded = rows(row);
        if (!encoded) {
          problems[static_cast<size_t>(row)] = encoded.error();
          continue;
        }
        int64_t tokens = 0, trained = 0;
        for (const auto& sample : *encoded) {
          lengths[static_cast<size_t>(row)].push_back(static_cast<int64_t>(sample.ids.size()));
          tokens += static_cast<int64_t>(sample.ids.size());
          trained += std::ranges::count_if(sample.labels, [](auto label) { return label != kIgnore; });
        }
        report.good_row(tokens, trained);
      }
    }));
  // Waits for all jobs before rethrowing the first exception: jobs refer to local objects.
  for (auto& job : jobs) job.wait();
  for (auto& job : jobs) job.get();
  report_in_file_order(std::move(problems), report);
  return lengths;
}

std::vector<SpanPack> pack_rows(const RowLengths& rows, const LoaderConfig& config, int64_t capacity) {
  std::vector<TokenSpan> slices;
  std::vector<int64_t> lengths;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (config.keeps_rows_together() && !rows[row].empty()) {
      slices.push_back({static_cast<int64_t>(row), 0});
      lengths.push_back(std::accumulate(rows[row].begin(), rows[row].end(), int64_t{0}));
      continue;
    }
    for (size_t part = 0; part < rows[row].size(); ++part) {
      slices.push_back({static_cast<int64_t>(row), part});
      lengths.push_back(rows[row][part]);
    }
  }
  if (config.packing == Packing::blocks) return split_into_blocks(slices, lengths, capacity, config.packing_window);
  std::vector<SpanPack> packs;
  size_t window = config.packing == Packing::none || config.packing == Packing::next_fit
                      ? std::max<size_t>(slices.size(), 1)
                      : static_cast<size_t>(config.packing_window);
  for (size_t begin = 0; begin < slices.size(); begin += window) {
    size_t end = std::min(begin + window, slices.size());
    std::vector<int64_t> part(lengths.begin() + static_cast<ptrdiff_t>(begin), lengths.begin() + static_cast<ptrdiff_t>(end));
    for (const auto& indices : pack(config.packing, part, capacity)) {
      auto& target = packs.emplace_back();
      for (size_t index : indices) target.push_back(slices[begin + index]);
    }
  }
  return packs;
}

void require_tokens_of_a_block(const RowLengths& rows, int64_t capacity) {
  int64_t tokens = 0;
  for (const auto& parts : rows) tokens = std::accumulate(parts.begin(), parts.end(), tokens);
  if (tokens == 0) return;
  throw UserError(ExitCode::bad_data,
                  fmt::format("the dataset holds {} tokens, and packing needs {} for one block", tokens, capacity),
                  "add more text, shorten the blocks, or disable packing");
}

}  // namespace hone::data
