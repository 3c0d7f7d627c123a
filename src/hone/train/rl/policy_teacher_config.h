// Configuration of a GRPO teacher.
#pragma once
#include <algorithm>

#include "hone/train/distillation/config.h"

namespace hone::train::rl {

// RLSD: reweights advantages, without changing their sign, by the agreement of the teacher.
struct AdvantageReweightConfig {
  double lambda = 0.5;                        // 0: advantages are unchanged
  double clip_range = 0.2;                    // of a token's weight, around 1
  int64_t warmup_steps = 0, decay_steps = 0;  // of lambda: up from 0, then down to 0; 0: constant
  bool negative_only = false;                 // reweight only negative advantages

  double lambda_at(int64_t step) const {
    if (step < warmup_steps) return lambda * static_cast<double>(step) / static_cast<double>(warmup_steps);
    if (decay_steps == 0) return lambda;
    return lambda * std::max(0.0, 1 - static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps));
  }
};

struct PolicyTeacherConfig {
  TeacherConfig teacher;  // without folder and servers: the policy itself, which reads a row's teacher_prompt
  double kl_coef = 1;     // of the teacher's log-ratio, which is added to advantages
  std::optional<AdvantageReweightConfig> reweight;  // instead of adding it
  bool in_loss = false;                             // SDAR: the loss distills, and advantages are unchanged

  bool is_policy() const { return teacher.folder.empty() && teacher.servers.empty(); }
};

}  // namespace hone::train::rl
