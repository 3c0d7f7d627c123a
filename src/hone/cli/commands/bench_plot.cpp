#include "hone/cli/commands/bench_plot.h"

#include <algorithm>
#include <cmath>

#include "hone/train/reports/figure.h"

namespace hone::cli {
namespace {

// Cumulative distribution of the values, with p50 and p99 marked.
train::Chart distribution_chart(const char* title, std::vector<double> values, const serve::LatencyStats& spread) {
  const double limit = std::max(spread.p99 * 1.25, 1e-6);
  train::Chart chart{.title = title,
                     .x = {.label = "milliseconds", .low = 0, .high = limit, .scale = 1e3},
                     .y = {.unit = "%", .low = 0, .high = 1, .scale = 100}};
  train::Series series{.x = {0}, .y = {0}};
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i < values.size() && values[i] <= limit; ++i) {
    series.x.push_back(values[i]);
    series.y.push_back(static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  chart.series.push_back(std::move(series));
  for (auto [name, value] : {std::pair{"p50", spread.p50}, std::pair{"p99", spread.p99}})
    chart.markers.push_back({value, fmt::format("{} {:.{}f} ms", name, value * 1e3, value < 0.01 ? 2 : 0)});
  return chart;
}

}  // namespace

void write_load_plot(const fs::path& path, const serve::LoadResult& result, const serve::LoadSummary& summary) {
  std::vector<double> first, between, whole;
  auto seconds = [](serve::Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  for (const auto& answer : result.answers) {
    if (!answer.error.empty()) continue;
    first.push_back(seconds(answer.first - answer.sent));
    whole.push_back(seconds(answer.last - answer.sent));
    between.insert(between.end(), answer.gaps.begin(), answer.gaps.end());
  }
  train::Figure figure{.title = fmt::format("{} requests, {} failed, {:.1f} requests/s, {:.0f} output tokens/s", summary.done,
                                            summary.failed, static_cast<double>(summary.done) / summary.seconds,
                                            static_cast<double>(summary.tokens) / summary.seconds),
                       .columns = 3,
                       .chart_width = 430,
                       .chart_height = 360};
  figure.charts.push_back(distribution_chart("time to first token", std::move(first), summary.first_token));
  figure.charts.push_back(distribution_chart("between tokens", std::move(between), summary.inter_token));
  figure.charts.push_back(distribution_chart("whole request", std::move(whole), summary.end_to_end));
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  train::write_figure(path, figure);
}

}  // namespace hone::cli
