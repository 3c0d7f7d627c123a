#include "hone/cli/commands/bench_plot.h"

#include <algorithm>
#include <cmath>

#include "hone/train/canvas.h"

namespace hone::cli {
namespace {

using train::Anchor, train::Canvas, train::Colour, train::Point;
constexpr Colour kPaper{255, 255, 255}, kInk{40, 48, 46}, kSoft{120, 130, 128}, kGrid{226, 231, 230}, kLine{15, 118, 110}, kMark{194, 85, 27};

struct Panel {
  double left, top, width, height;
};

std::string short_milliseconds(double seconds) { return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 2 : 0); }

// Part of the values below x, over x; p50 and p99 are marked.
void draw_spread(Canvas& canvas, const Panel& panel, const std::string& title, std::vector<double> values, const serve::Spread& spread) {
  canvas.text({panel.left, panel.top - 14}, title, 13, kInk);
  double limit = std::max(spread.p99 * 1.25, 1e-6), bottom = panel.top + panel.height;
  auto x = [&](double value) { return panel.left + panel.width * std::min(value / limit, 1.0); };
  auto y = [&](double part) { return bottom - panel.height * part; };
  for (double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    canvas.line({panel.left, y(part)}, {panel.left + panel.width, y(part)}, kGrid, 1);
    canvas.text({panel.left - 8, y(part) + 4}, fmt::format("{:.0f}%", part * 100), 9, kSoft, Anchor::end);
  }
  for (int i = 0; i <= 4; ++i) canvas.text({x(limit * i / 4), bottom + 18}, short_milliseconds(limit * i / 4), 9, kSoft, Anchor::middle);
  std::sort(values.begin(), values.end());
  std::vector<Point> points{{x(0), y(0)}};
  for (size_t i = 0; i < values.size() && values[i] <= limit; ++i) points.push_back({x(values[i]), y(static_cast<double>(i + 1) / static_cast<double>(values.size()))});
  canvas.polyline(points, kLine, 2);
  for (auto [name, value] : {std::pair{"p50", spread.p50}, std::pair{"p99", spread.p99}}) {
    canvas.line({x(value), panel.top}, {x(value), bottom}, kMark, 1, 0.8);
    bool left = x(value) - panel.left > panel.width / 2;  // below the curve there is room on either side
    canvas.text({x(value) + (left ? -5 : 5), bottom - 8}, fmt::format("{} {}", name, short_milliseconds(value)), 9, kMark, left ? Anchor::end : Anchor::start);
  }
}

}  // namespace

void write_load_plot(const fs::path& path, const serve::LoadResult& result, const serve::LoadSummary& summary) {
  Canvas canvas(1280, 420, kPaper);
  std::vector<double> first, between, whole;
  auto seconds = [](serve::Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  for (const auto& answer : result.answers) {
    if (!answer.error.empty()) continue;
    first.push_back(seconds(answer.first - answer.sent));
    whole.push_back(seconds(answer.last - answer.sent));
    between.insert(between.end(), answer.gaps.begin(), answer.gaps.end());
  }
  canvas.text({60, 34},
              fmt::format("{} requests, {} failed, {:.1f} requests/s, {:.0f} output tokens/s", summary.done, summary.failed,
                          static_cast<double>(summary.done) / summary.seconds, static_cast<double>(summary.tokens) / summary.seconds),
              15, kInk);
  draw_spread(canvas, {60, 90, 340, 270}, "time to first token", std::move(first), summary.first_token);
  draw_spread(canvas, {480, 90, 340, 270}, "between tokens", std::move(between), summary.between);
  draw_spread(canvas, {900, 90, 340, 270}, "whole request", std::move(whole), summary.whole);
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  canvas.write_png(path);
}

}  // namespace hone::cli
