#include "hone/train/reports/plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "hone/base/log.h"
#include "hone/train/reports/figure.h"

namespace hone::train {
namespace {

using Curves = std::map<std::string, Series>;  // keyed by "train_loss", "eval_loss"

std::string file_stem(std::string key) {
  std::replace(key.begin(), key.end(), '/', '_');
  return key;
}

Curves curves_of(const Json& log_history) {
  Curves curves;
  for (const auto& item : log_history) {
    if (!item.contains("step") || item.contains("train_runtime")) continue;
    for (const auto& [key, value] : item.items()) {
      if (!value.is_number() || key == "step") continue;
      const bool eval = key.starts_with("eval_");
      auto& curve = curves[eval ? key : "train_" + key];
      curve.name = key;
      curve.dots = eval;
      curve.x.push_back(item["step"].get<double>());
      curve.y.push_back(value.get<double>());
    }
  }
  return curves;
}

// The given curves in one chart; nothing if the run logged none of them.
std::optional<Chart> chart_of(const Curves& curves, std::string title, std::initializer_list<std::string> names, bool smoothed) {
  Chart chart{.title = std::move(title), .x = {.label = "step", .integers = true}};
  for (const auto& name : names) {
    auto found = curves.find(name);
    if (found == curves.end()) continue;
    chart.series.push_back(found->second);
    auto& series = chart.series.back();
    if (smoothed && !series.dots) series.smoothed = smooth(series.y);
  }
  if (chart.series.empty()) return std::nullopt;
  return chart;
}

Figure overview_of(const Curves& curves, const std::string& title) {
  Figure figure{.title = title, .columns = 2, .chart_width = 620, .chart_height = 340};
  auto add = [&](const char* name, std::initializer_list<std::string> names, bool smoothed) {
    if (auto chart = chart_of(curves, name, names, smoothed)) figure.charts.push_back(std::move(*chart));
  };
  add("loss", {"train_loss", "eval_loss"}, true);
  add("reward", {"train_reward", "eval_reward"}, true);
  add("rewards of the pairs", {"train_rewards/chosen", "train_rewards/rejected"}, true);
  add("KL divergence", {"train_kl"}, true);
  add("learning rate", {"train_learning_rate"}, false);
  add("gradient norm", {"train_grad_norm"}, true);
  return figure;
}

// LLaMA-Factory plots few metrics: the relevant ones of each of its stages.
bool factory_draws(const Curves& curves, const std::string& name) {
  static constexpr std::string_view kShown[] = {"train_loss", "eval_loss", "eval_accuracy", "train_rewards/accuracies",
                                                "train_reward"};
  if (name == "train_rewards/chosen") return !curves.contains("train_rewards/accuracies");  // KTO, which has no pairs
  return std::find(std::begin(kShown), std::end(kShown), name) != std::end(kShown);
}

std::optional<fs::path> picture_of(const Curves& curves, const std::string& name, Layout layout, const fs::path& run_folder) {
  if (layout == Layout::swift) return run_folder / "images" / (file_stem(name) + ".png");
  if (!factory_draws(curves, name)) return std::nullopt;
  return run_folder / fmt::format("training_{}.png", file_stem(curves.at(name).name));
}

// Noisy metrics are smoothed; a schedule or a count is exact.
bool worth_smoothing(const std::string& name) {
  return name == "train_loss" || name == "train_grad_norm" || name.starts_with("train_reward") || name == "train_token_acc" ||
         name == "train_kl";
}

}  // namespace

std::vector<double> smooth(const std::vector<double>& values) {
  const double half_life = std::max(1.0, static_cast<double>(values.size()) / 30), decay = std::exp2(-1 / half_life);
  std::vector<double> sums(values.size(), 0), weights(values.size(), 0);
  double sum = 0, weight = 0;
  auto take = [&](size_t i, bool itself) {
    const bool finite = std::isfinite(values[i]);
    const double before = sum * decay, weight_before = weight * decay;
    sum = before + (finite ? values[i] : 0), weight = weight_before + (finite ? 1 : 0);
    sums[i] += itself ? sum : before, weights[i] += itself ? weight : weight_before;
  };
  for (size_t i = 0; i < values.size(); ++i) take(i, true);
  sum = weight = 0;
  for (size_t i = values.size(); i-- > 0;) take(i, false);
  std::vector<double> smoothed(values.size());
  for (size_t i = 0; i < values.size(); ++i) smoothed[i] = std::isfinite(values[i]) ? sums[i] / weights[i] : values[i];
  return smoothed;
}

std::vector<fs::path> plot_history(const Json& log_history, Layout layout, const fs::path& run_folder,
                                   const std::string& run_name) {
  std::vector<fs::path> written;
  if (!can_draw()) {
    log::info("no plots are drawn: hone was built without Cairo (apt install libcairo2-dev libfontconfig-dev, then build again)");
    return written;
  }
  try {
    if (layout == Layout::swift) fs::create_directories(run_folder / "images");
    auto curves = curves_of(log_history);
    for (const auto& [name, curve] : curves) {
      auto path = picture_of(curves, name, layout, run_folder);
      if (!path) continue;
      const bool loss = name == "train_loss";
      auto title = layout == Layout::swift ? name : fmt::format("training {}", curve.name);
      auto chart =
          loss ? chart_of(curves, title, {name, "eval_loss"}, true) : chart_of(curves, title, {name}, worth_smoothing(name));
      chart->y.label = curve.name;
      write_figure(*path, {.charts = {std::move(*chart)}});
      written.push_back(*path);
    }
    auto overview = overview_of(curves, run_name.empty() ? run_folder.filename().string() : run_name);
    if (overview.charts.empty()) return written;
    written.push_back(run_folder / (layout == Layout::swift ? "images/overview.png" : "training_overview.png"));
    write_figure(written.back(), overview);
  } catch (const std::exception& cause) {
    log::warning("plots are missing: {}", cause.what());
  }
  return written;
}

}  // namespace hone::train
