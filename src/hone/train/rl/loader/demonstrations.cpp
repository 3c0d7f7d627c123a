#include "hone/train/rl/loader/demonstrations.h"

#include <cmath>
#include <numbers>

#include "hone/train/losses/policy.h"

namespace hone::train::rl {
namespace {

void append_rows(data::Batch& batch, const data::Batch& rows) {
  if (batch.positions_t.dim() != 1 || rows.positions_t.dim() != 1 || rows.audio.frames_fm.defined())
    throw UserError(ExitCode::bad_data, "demonstrations (CHORD) with images or audio; only text is supported",
                    "leave them out of the rows and the prompts");
  const auto weights = [](const data::Batch& part) {
    return part.weights_t.defined() ? part.weights_t : at::ones({part.segments.total()}, at::kFloat);
  };
  if (batch.weights_t.defined() || rows.weights_t.defined()) batch.weights_t = at::cat({weights(batch), weights(rows)});
  batch.tokens_t = at::cat({batch.tokens_t, rows.tokens_t});
  batch.positions_t = at::cat({batch.positions_t, rows.positions_t});
  batch.targets_t = at::cat({batch.targets_t, rows.targets_t});
  for (int64_t i = 0; i < rows.segments.count(); ++i) batch.segments.append(rows.segments.length(i));
  batch.channels.insert(batch.channels.end(), rows.channels.begin(), rows.channels.end());
  batch.target_count += rows.target_count;
}

}  // namespace

double DemonstrationConfig::mu_at(int64_t step) const {
  if (step < warmup_steps) return mu_peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
  if (step >= warmup_steps + decay_steps) return mu_valley;
  const double passed = static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps);
  return mu_valley + (mu_peak - mu_valley) * 0.5 * (1 + std::cos(std::numbers::pi * passed));
}

data::Batch Demonstrations::with_rows(data::Batch batch, int64_t step) {
  const double mu = config_.mu_at(step);
  if (mu <= 0) return batch;
  const auto rows = rows_->next();
  auto payload = std::make_shared<PolicyPayload>(data::payload_of<PolicyPayload>(batch));
  payload->demonstrations = rows.segments.count();
  payload->demonstrated_targets = rows.target_count;
  payload->mu = mu;
  append_rows(batch, rows);
  batch.payload = std::move(payload);
  return batch;
}

}  // namespace hone::train::rl
