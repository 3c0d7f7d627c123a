// Training curves as pictures: what a run logged, raw and smoothed, over its steps.
#pragma once
#include <vector>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/train/config.h"

namespace hone::train {

// Exponential weights on the points to both sides, so that the curve does not lag, divided by their sum, which corrects the bias
// at the ends. They halve every thirtieth of the run, at least every point. Non-finite values stay and are not averaged.
std::vector<double> smooth(const std::vector<double>& values);

// The pictures a front end's users look for (images/train_loss.png … or training_loss.png, training_eval_loss.png …), each as PNG
// and SVG, and an overview of loss, rewards, learning rate and gradient norm in one. Returns where the PNGs are. A picture that
// cannot be written is a warning.
std::vector<fs::path> plot_history(const Json& log_history, Layout layout, const fs::path& run_folder,
                                   const std::string& run_name = "");

}  // namespace hone::train
