// Plots of training curves: logged metrics, raw and smoothed, over steps.
#pragma once
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/train/config.h"

namespace hone::train {

// Two-sided exponential smoothing, so that the curve does not lag, normalized to correct the bias at the ends. Weights halve
// every thirtieth of the run, at least every point. Non-finite values stay and are not averaged.
std::vector<double> smooth(const std::vector<double>& values);

// The plots of a front end (images/train_loss.png … or training_loss.png, training_eval_loss.png …), each as PNG and SVG, and
// an overview of loss, rewards, learning rate and gradient norm. Returns the paths of the PNGs. A failed plot is a warning.
std::vector<fs::path> plot_history(const Json& log_history, Layout layout, const fs::path& run_folder,
                                   const std::string& run_name = "");

}  // namespace hone::train
