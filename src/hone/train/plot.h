// Training curves as pictures: raw and smoothed lines over steps, drawn by ourselves.
#pragma once
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/train/config.h"

namespace hone::train {

struct Curve {
  std::string title, y_label;
  std::vector<double> steps, values;
  std::vector<double> smoothed;  // empty: the raw line alone
};

// Exponential moving average with a fixed weight on the past, corrected for its start (TensorBoard's smoothing).
std::vector<double> smooth_debiased(const std::vector<double>& values, double weight);
// Plain exponential moving average; the weight grows with the number of points: 1.8 (sigmoid(0.05 n) - 0.5).
std::vector<double> smooth_by_length(const std::vector<double>& values);

void write_plot(const fs::path& path, const Curve& curve, int width = 800, int height = 500);

// The pictures a front end's users look for: images/train_loss.png … or training_loss.png, training_eval_loss.png ….
// Returns where they are. A picture that cannot be written is a warning.
std::vector<fs::path> plot_history(const Json& log_history, Layout layout, const fs::path& run_folder);

}  // namespace hone::train
