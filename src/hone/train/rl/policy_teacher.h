// A teacher's log-probabilities of the tokens that the policy sampled: in advantages (ms-swift's OPD-RL and RLSD) or in the loss
// (SDAR).
#pragma once
#include "hone/train/distillation/prompt_logprobs.h"
#include "hone/train/methods/reference.h"
#include "hone/train/rl/policy_teacher_config.h"
#include "hone/train/rl/rollout_sample.h"

namespace hone::train::rl {

class PolicyTeacher {
 public:
  // `model`: null with teacher servers. `config` must outlive it.
  PolicyTeacher(const PolicyTeacherConfig& config, std::unique_ptr<Reference> model, int64_t vocabulary);

  struct View {
    std::shared_ptr<const data::Encoder> encoder;
    double temperature;
    ParallelStrategy& strategy;
    const parallel::SequenceParallel* sequence = nullptr;  // that splits the sequences of passes; null: nothing does
    parallel::ProcessGroup* peers = nullptr;               // that have the same samples, and share the requests; null: none
  };
  // log p(target) of each position of `batch`, [T] on the CPU, zero without a target. For rows with a `teacher_prompt`, the
  // teacher reads it instead of the last user message. Every process calls it.
  Tensor logps(model::CausalLM& policy, const data::Batch& batch, const TrainingRounds& samples, const View& view);

 private:
  Tensor ask_servers(const data::Batch& seen, const TrainingRounds& samples, const View& view) const;

  const PolicyTeacherConfig& config_;
  std::unique_ptr<Reference> model_;
  std::vector<PromptLogprobsClient> clients_;
};

// Token advantages: `base_t` plus the teacher's log-ratio, or weighted by it. `step`: updates so far.
Tensor advantages_with_teacher(const PolicyTeacherConfig& config, const Tensor& base_t, const Tensor& teacher_t,
                               const Tensor& old_t, int64_t step);

// Null without a GRPO teacher. Called after `tuned` is attached and before the model is sharded.
std::unique_ptr<PolicyTeacher> make_policy_teacher(const TrainingJob& job, const DistributedContext& processes,
                                                   const tuner::Tuned& tuned, SessionModels& models);

// The same completions after the teacher's prompts and their media.
data::Batch teacher_batch(const TrainingRounds& samples, const data::Encoder& encoder);

}  // namespace hone::train::rl
