// CHORD: demonstrations that are trained on together with the completions, with a scheduled weight mu.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/data/batches/loader.h"

namespace hone::train::rl {

struct DemonstrationConfig {
  std::vector<std::string> datasets;
  int64_t batch_size = 1;                     // demonstrations per batch of completions and process
  int64_t warmup_steps = 0, decay_steps = 0;  // of mu: linear from 0 to its peak, then a cosine to its valley
  double mu_peak = 0.5, mu_valley = 0.02;     // mu: weight of the demonstrations' loss; completions have 1 - mu

  double mu_at(int64_t step) const;
};

class Demonstrations {
 public:
  Demonstrations(const DemonstrationConfig& config, std::unique_ptr<data::Loader> rows)
      : config_(config), rows_(std::move(rows)) {}

  // Appends demonstrations to `batch`, whose payload is PolicyPayload: one forward pass computes both. Unchanged if mu is 0.
  data::Batch with_rows(data::Batch batch, int64_t step);
  // Position in the rows; `begin_update` saves it, so that a skipped update consumes none.
  void begin_update() { at_update_ = rows_->state(); }
  void rewind() { rewound_ = true; }
  Json state() const { return rewound_ ? at_update_ : rows_->state(); }
  void restore(const Json& state) { rows_->restore(state); }

 private:
  DemonstrationConfig config_;
  std::unique_ptr<data::Loader> rows_;
  Json at_update_;
  bool rewound_ = false;
};

}  // namespace hone::train::rl
