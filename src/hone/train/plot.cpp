#include "hone/train/plot.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hone/base/log.h"
#include "hone/train/canvas.h"

namespace hone::train {
namespace {

constexpr Colour kPaper{255, 255, 255}, kInk{38, 43, 51}, kFaded{110, 118, 129}, kGrid{231, 234, 238}, kLine{31, 111, 235};

// The values between which an axis runs, and a round distance between its ticks.
struct Axis {
  double low, high, tick;

  static Axis over(const std::vector<double>& values, int ticks, bool pad) {
    double low = INFINITY, high = -INFINITY;
    for (double value : values)
      if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) {
      double margin = low == 0 ? 0.5 : std::abs(low) * 0.05;
      low -= margin, high += margin;
    }
    if (pad) {
      double margin = (high - low) * 0.06;
      low = low >= 0 ? std::max(0.0, low - margin) : low - margin;
      high += margin;
    }
    double rough = (high - low) / ticks, power = std::pow(10.0, std::floor(std::log10(rough)));
    double tick = power * 10;
    for (double factor : {1.0, 2.0, 2.5, 5.0})
      if (power * factor >= rough) {
        tick = power * factor;
        break;
      }
    return {low, high, tick};
  }
  double share(double value) const { return (value - low) / (high - low); }
  std::vector<double> ticks() const {
    std::vector<double> all;
    for (double at = std::ceil(low / tick - 1e-9) * tick; at <= high + tick * 1e-9; at += tick)
      all.push_back(std::abs(at) < tick * 1e-9 ? 0.0 : at);
    return all;
  }
  std::string label(double value) const {
    double largest = std::max(std::abs(low), std::abs(high));
    if (largest < 1e-3 || largest >= 1e6) return value == 0 ? "0" : fmt::format("{:.3g}", value);
    int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(tick) - 1e-9)) +
                                 (std::abs(tick * std::pow(10, -std::floor(std::log10(tick))) - 2.5) < 1e-6));
    return fmt::format("{:.{}f}", value, digits);
  }
};

struct Frame {
  double left, top, right, bottom;
  Axis x, y;
  Point at(double step, double value) const {
    return {left + x.share(step) * (right - left), bottom - y.share(value) * (bottom - top)};
  }
};

void draw_axes(Canvas& canvas, const Frame& frame, const Curve& curve) {
  for (double tick : frame.y.ticks()) {
    double y = std::round(frame.at(0, tick).y) + 0.5;
    canvas.line({frame.left, y}, {frame.right, y}, kGrid, 1);
    canvas.text({frame.left - 9, y + 5}, frame.y.label(tick), 9, kFaded, Anchor::end);
  }
  for (double tick : frame.x.ticks()) {
    double x = std::round(frame.at(tick, 0).x) + 0.5;
    canvas.line({x, frame.bottom}, {x, frame.bottom + 5}, kFaded, 1);
    canvas.text({x, frame.bottom + 21}, frame.x.label(tick), 9, kFaded, Anchor::middle);
  }
  canvas.line({frame.left, frame.bottom + 0.5}, {frame.right, frame.bottom + 0.5}, kFaded, 1);
  canvas.text({(frame.left + frame.right) / 2, frame.top - 18}, curve.title, 13, kInk, Anchor::middle);
  canvas.text({(frame.left + frame.right) / 2, frame.bottom + 44}, "step", 10, kInk, Anchor::middle);
  canvas.text({22, (frame.top + frame.bottom) / 2}, curve.y_label, 10, kInk, Anchor::middle, 1);
}

// Pieces of a line between non-finite values, so that a NaN shows as a gap.
void draw_line(Canvas& canvas, const Frame& frame, const std::vector<double>& steps, const std::vector<double>& values,
               double thickness, double opacity) {
  std::vector<Point> piece;
  auto flush = [&] {
    if (!piece.empty()) canvas.polyline(piece, kLine, thickness, opacity);
    piece.clear();
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::isfinite(values[i]))
      piece.push_back(frame.at(steps[i], values[i]));
    else
      flush();
  }
  flush();
}

void draw_legend(Canvas& canvas, const Frame& frame) {
  double right = frame.right - 8, top = frame.top + 6, width = 118;
  canvas.fill({right - width, top}, {right, top + 46}, kPaper, 0.85);
  auto entry = [&](double y, const char* name, double thickness, double opacity) {
    canvas.line({right - width + 10, y}, {right - width + 36, y}, kLine, thickness, opacity);
    canvas.text({right - width + 45, y + 4.5}, name, 9, kInk);
  };
  entry(top + 14, "original", 1.6, 0.35);
  entry(top + 33, "smoothed", 2.2, 1.0);
}

std::string file_stem(std::string key) {
  std::replace(key.begin(), key.end(), '/', '_');
  return key;
}

std::map<std::string, Curve> curves_of(const Json& log_history) {
  std::map<std::string, Curve> curves;
  for (const auto& item : log_history) {
    if (!item.contains("step") || item.contains("train_runtime")) continue;
    for (const auto& [key, value] : item.items()) {
      if (!value.is_number() || key == "step") continue;
      std::string name = key.starts_with("eval_") ? key : "train_" + key;
      auto& curve = curves[name];
      curve.steps.push_back(item["step"].get<double>());
      curve.values.push_back(value.get<double>());
      curve.y_label = key;
    }
  }
  return curves;
}

}  // namespace

std::vector<double> smooth_debiased(const std::vector<double>& values, double weight) {
  std::vector<double> smoothed;
  double average = 0, correction = 1;
  for (double value : values) {
    average = average * weight + value * (1 - weight);
    correction *= weight;
    smoothed.push_back(average / (1 - correction));
  }
  return smoothed;
}

std::vector<double> smooth_by_length(const std::vector<double>& values) {
  if (values.empty()) return {};
  double weight = 1.8 * (1 / (1 + std::exp(-0.05 * static_cast<double>(values.size()))) - 0.5);
  std::vector<double> smoothed;
  double last = values.front();
  for (double value : values) smoothed.push_back(last = last * weight + value * (1 - weight));
  return smoothed;
}

void write_plot(const fs::path& path, const Curve& curve, int width, int height) {
  Canvas canvas(width, height, kPaper);
  Frame frame{92,
              52,
              static_cast<double>(width) - 28,
              static_cast<double>(height) - 66,
              Axis::over(curve.steps, 8, false),
              Axis::over(curve.values, 6, true)};
  frame.x.tick = std::max(frame.x.tick, 1.0);  // there is no half a step
  draw_axes(canvas, frame, curve);
  bool two = !curve.smoothed.empty();
  draw_line(canvas, frame, curve.steps, curve.values, 1.6, two ? 0.35 : 1.0);
  if (two) {
    draw_line(canvas, frame, curve.steps, curve.smoothed, 2.2, 1.0);
    draw_legend(canvas, frame);
  }
  canvas.write_png(path);
}

std::vector<fs::path> plot_history(const Json& log_history, Layout layout, const fs::path& run_folder) {
  std::vector<fs::path> written;
  try {
    if (layout == Layout::swift) fs::create_directories(run_folder / "images");
    auto curves = curves_of(log_history);
    bool of_pairs = std::ranges::any_of(curves, [](const auto& each) { return each.first == "train_rewards/accuracies"; });
    for (auto& [name, curve] : curves) {
      fs::path path = run_folder / "images" / (file_stem(name) + ".png");
      curve.title = name;
      if (layout == Layout::swift) {
        if (name == "train_loss") curve.smoothed = smooth_debiased(curve.values, 0.9);
      } else {
        static constexpr std::string_view kShown[] = {"train_loss", "eval_loss", "eval_accuracy", "train_rewards/accuracies",
                                                      "train_reward"};
        bool of_kto = name == "train_rewards/chosen" && !of_pairs;
        if (!of_kto && std::find(std::begin(kShown), std::end(kShown), name) == std::end(kShown)) continue;
        curve.smoothed = smooth_by_length(curve.values);
        curve.title = fmt::format("training {}", curve.y_label);
        path = run_folder / fmt::format("training_{}.png", file_stem(curve.y_label));
      }
      write_plot(path, curve);
      written.push_back(path);
    }
  } catch (const std::exception& cause) {
    log::warning("plots are missing: {}", cause.what());
  }
  return written;
}

}  // namespace hone::train
