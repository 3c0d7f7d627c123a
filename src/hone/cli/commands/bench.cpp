// bench serve: load-tests any OpenAI-compatible server and prints the results as a table and a plot.
#include <algorithm>
#include <cmath>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/text_table.h"
#include "hone/serve/bench/load.h"
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

void write_load_plot(const fs::path& path, const serve::LoadResult& result, const serve::LoadSummary& summary) {
  std::vector<double> first, between, whole;
  auto seconds = [](serve::Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  for (const auto& request : result.requests) {
    if (!request.error.empty()) continue;
    first.push_back(seconds(request.first - request.sent));
    whole.push_back(seconds(request.last - request.sent));
    between.insert(between.end(), request.gaps.begin(), request.gaps.end());
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

serve::LoadConfig load_config(const Options& options) {
  const LoadTestArguments load_test_args(options);
  const ModelArguments model_args(options);
  serve::LoadConfig config;
  config.url = load_test_args.url.required();
  config.api_key = *ServerArguments(options).api_key;
  config.model = *model_args.model;
  config.requests = *load_test_args.requests;
  config.concurrency = *load_test_args.concurrency;
  config.rate = *load_test_args.rate;
  config.prompt_words = *load_test_args.prompt_words;
  config.max_tokens = *load_test_args.max_tokens;
  config.temperature = *GenerationArguments(options).temperature;
  config.ignore_eos = *load_test_args.ignore_eos;
  config.seed = static_cast<uint64_t>(*model_args.seed);
  return config;
}

std::string milliseconds(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

void print_tables(const serve::LoadSummary& summary) {
  double seconds = std::max(summary.seconds, 1e-9);
  TextTable rates({"", "total", "per second"});
  rates.align_right(1), rates.align_right(2);
  auto row = [&](const char* name, int64_t count) {
    rates.add({name, fmt::format("{}", count), fmt::format("{:.2f}", static_cast<double>(count) / seconds)});
  };
  row("requests", summary.done);
  row("prompt tokens", summary.prompt_tokens);
  row("output tokens", summary.tokens);
  row("failed", summary.failed);
  TextTable times({"milliseconds", "mean", "p50", "p90", "p99", "max"});
  for (size_t i = 1; i < 6; ++i) times.align_right(i);
  auto spread = [&](const char* name, const serve::LatencyStats& s) {
    times.add({name, milliseconds(s.mean), milliseconds(s.p50), milliseconds(s.p90), milliseconds(s.p99), milliseconds(s.worst)});
  };
  spread("time to first token", summary.first_token);
  spread("between tokens", summary.inter_token);
  spread("whole request", summary.end_to_end);
  auto width = static_cast<size_t>(terminal::columns());
  fmt::print("{}\n{}", rates.str(width), times.str(width));
  for (const auto& [what, count] : summary.errors) fmt::print("{} x {}\n", count, what);
}

// Times without a single response are no result.
[[noreturn]] void fail_unanswered(const serve::LoadConfig& config, const serve::LoadSummary& summary) {
  std::vector<std::string> reasons;
  bool is_unreachable = true;
  for (const auto& [what, count] : summary.errors) {
    reasons.push_back(fmt::format("{} x {}", count, what));
    is_unreachable = is_unreachable && what.starts_with("no connection");
  }
  throw UserError(ExitCode::failure,
                  fmt::format("none of {} requests to {} was answered; expected a server of OpenAI's chat completions there: {}",
                              summary.failed, config.url, fmt::join(reasons, "; ")),
                  is_unreachable ? "start the server, for example with hone deploy, or correct `url`"
                                 : "correct what the server refuses, then run the test again");
}

}  // namespace

int bench_command(const Options& options) {
  const LoadTestArguments args(options);
  if (options.positional().empty() || options.positional()[0] != "serve")
    throw UserError(ExitCode::usage, "hone bench: missing subcommand; expected serve",
                    "hone bench serve --url http://127.0.0.1:8000 --requests 100 --concurrency 8");
  auto config = load_config(options);
  if (args.plot.has_value()) train::require_drawing();
  ProgressBar bar("Bench", config.requests);
  auto result = serve::run_load(config, [&](int64_t done) { bar.update(done); });
  bar.finish();
  auto summary = serve::summarize(result);
  const bool is_json = *ToolArguments(options).format == "json";
  if (is_json) fmt::print("{}\n", serve::to_json(summary).dump());
  if (summary.done == 0) fail_unanswered(config, summary);
  if (!is_json) print_tables(summary);
  if (args.plot.has_value()) {
    write_load_plot(*args.plot, result, summary);
    log::info("picture: {}", *args.plot);
  }
  return 0;
}

}  // namespace hone::cli
