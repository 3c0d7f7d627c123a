#include "hone/train/loop/update_check.h"

#include <fmt/ranges.h>

#include <cmath>

#include "hone/base/error.h"
#include "hone/base/log.h"

namespace hone::train {
namespace {

// "rows train.jsonl:3, train.jsonl:9 and 14 more"
std::string name_rows(const std::vector<data::Batch>& batches, const std::function<std::string(int64_t)>& row_name) {
  constexpr size_t kShown = 16;
  std::vector<std::string> names;
  size_t total = 0;
  for (const auto& batch : batches)
    for (int64_t row : batch.rows)
      if (++total <= kShown) names.push_back(row_name ? row_name(row) : fmt::format("row {}", row));
  return fmt::format("{}{}", fmt::join(names, ", "), total > kShown ? fmt::format(" and {} more", total - kShown) : "");
}

}  // namespace

bool UpdateCheck::accepts(const StepResult& result, int64_t step, const std::vector<data::Batch>& batches, TrainState& state) {
  if (result.finite) {
    if (!check_loss_spike(result.loss, step, batches, state)) return false;
    scaler_.count_good_step();
    state.skips_in_a_row = 0;
    return true;
  }
  ++state.skipped_steps;
  if (std::isfinite(result.loss) && scaler_.back_off()) {
    log::debug("step {}: gradients overflow float16; the loss scale falls to {}", step, scaler_.value());
    return false;
  }
  std::string what = fmt::format("step {}: {} is not finite (loss {}, gradient norm {}) in the batch of {}", step,
                                 std::isfinite(result.loss) ? "the gradient" : "the loss", result.loss, result.grad_norm,
                                 name_rows(batches, row_name_));
  bool too_many = ++state.skips_in_a_row >= config_.max_skips_in_a_row;
  if (config_.on_non_finite == NonFinite::stop || too_many)
    throw UserError(ExitCode::non_finite, what,
                    too_many ? fmt::format("{} steps in a row were skipped; lower `learning_rate` or look at these rows",
                                           state.skips_in_a_row)
                             : "look at these rows, lower `learning_rate`, or skip such steps with `non_finite` skip");
  log::warning("{}; the step is skipped and the weights are unchanged", what);
  return false;
}

// A loss far above the previous ones: the step is reported, skipped or ends the run, by the configured policy.
bool UpdateCheck::check_loss_spike(double loss, int64_t step, const std::vector<data::Batch>& batches, TrainState& state) {
  double sigmas = spikes_.observe(loss);
  if (config_.spike_sigmas <= 0 || sigmas < config_.spike_sigmas) return true;
  auto what = fmt::format("step {}: loss spike: {:.4f} is {:.0f} standard deviations above the recent losses, in the batch of {}",
                          step, loss, sigmas, name_rows(batches, row_name_));
  if (config_.on_spike == Spike::stop)
    throw UserError(ExitCode::non_finite, what,
                    "look at these rows, lower `learning_rate`, or skip such steps with `loss_spike` skip");
  bool skipped = config_.on_spike == Spike::skip;
  log::warning("{}{}", what, skipped ? "; the step is skipped and the weights are unchanged" : "");
  state.skipped_steps += skipped;
  return !skipped;
}

void UpdateCheck::refuse_broken_end(const TrainState& state, int64_t steps) {
  if (state.skips_in_a_row < 2 || 2 * state.skips_in_a_row <= steps) return;
  throw UserError(
      ExitCode::non_finite,
      fmt::format(
          "the last {} of {} steps were skipped because the loss or the gradient was not finite: the weights are probably broken",
          state.skips_in_a_row, steps),
      "lower `learning_rate` and restart the run, or look at the rows named above");
}

}  // namespace hone::train
