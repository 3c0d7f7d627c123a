// The models that score the tokens of a rollout in addition to the policy.
#pragma once
#include "hone/train/methods/reference.h"
#include "hone/train/rl/policy_teacher.h"

namespace hone::train::rl {

struct ScoringModels {
  Reference* reference = nullptr;                        // null: none
  PolicyTeacher* teacher = nullptr;                      // null: none
  model::CausalLM* value_model = nullptr;                // null: none, or a head of the policy
  const parallel::SequenceParallel* sequence = nullptr;  // that splits the sequences of passes; null: nothing does
};

}  // namespace hone::train::rl
