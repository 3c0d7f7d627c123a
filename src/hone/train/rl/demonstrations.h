// CHORD: rows of an expert that are learned beside the completions, with a weight that follows a schedule.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hone/data/batches/loader.h"

namespace hone::train::rl {

struct DemonstrationConfig {
  std::vector<std::string> datasets;
  int64_t batch_size = 1;                     // rows beside each batch of completions, on each process
  int64_t warmup_steps = 0, decay_steps = 0;  // of mu: up from 0 to its peak, then along a cosine to its valley
  double mu_peak = 0.5, mu_valley = 0.02;     // mu: the rows' part of the loss; completions have the rest

  double mu_at(int64_t step) const;
};

class Demonstrations {
 public:
  Demonstrations(const DemonstrationConfig& config, std::unique_ptr<data::Loader> rows)
      : config_(config), rows_(std::move(rows)) {}

  // `batch`, whose payload is PolicyPayload, with rows behind its completions: one pass computes both. Unchanged where mu is 0.
  data::Batch with_rows(data::Batch batch, int64_t step);
  // Where the rows are; `begin_update` remembers it, so that an update that does not come about takes nothing.
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
