// How many prompts, completions and batches a rollout has.
#pragma once
#include <cstdint>
#include <optional>

namespace hone::train::rl {

struct RolloutBatchingConfig {
  int64_t generations = 8;                                             // completions per prompt
  int64_t least_generations = 2;                                       // minimum of the method
  int64_t iterations = 1;                                              // optimizer passes over one rollout
  std::optional<int64_t> generation_batch_size, steps_per_generation;  // unset: one rollout per update
  bool whole_groups = false;  // in each batch of each process, for losses that compare completions of a group
};

struct RolloutBatching {
  int64_t micro_batch = 1, accumulation = 1, processes = 1;
  int64_t generations = 8, iterations = 1, steps_per_generation = 1;

  int64_t local_completions() const { return micro_batch * steps_per_generation; }  // of a rollout, on each process
  int64_t num_completions() const { return local_completions() * processes; }
  int64_t prompts() const { return num_completions() / generations; }
  int64_t batches() const { return steps_per_generation * iterations; }  // that a process makes of one rollout
  // Whether weights change between generation and use, so that old log-probabilities must be stored.
  bool is_off_policy() const {
    return iterations > 1 || steps_per_generation > accumulation || accumulation % steps_per_generation != 0;
  }
};

// Throws UserError(usage) if sizes do not divide.
RolloutBatching make_rollout_batching(const RolloutBatchingConfig& config, int64_t micro_batch, int64_t accumulation,
                                      int64_t processes);

}  // namespace hone::train::rl
