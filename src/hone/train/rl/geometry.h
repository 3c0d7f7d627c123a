// How many answers are written at a time and how they are cut into batches, by ms-swift's rules.
#pragma once
#include <cstdint>
#include <optional>

namespace hone::train::rl {

struct GeometryConfig {
  int64_t generations = 8;  // answers to a prompt
  int64_t iterations = 1;   // how often the answers of one rollout are trained on
  std::optional<int64_t> generation_batch_size, steps_per_generation;  // unset: one rollout for each update
  bool whole_groups = false;  // in each batch of each process, for losses that compare a group's answers
};

struct Geometry {
  int64_t micro_batch = 1, accumulation = 1, processes = 1;
  int64_t generations = 8, iterations = 1, steps_per_generation = 1;

  int64_t own_answers() const { return micro_batch * steps_per_generation; }  // of a rollout, on each process
  int64_t answers() const { return own_answers() * processes; }
  int64_t prompts() const { return answers() / generations; }
  int64_t batches() const { return steps_per_generation * iterations; }  // that a process makes of one rollout
  // Whether weights change between an answer and a use of it, so that what they were must be remembered.
  bool reuses_answers() const { return iterations > 1 || steps_per_generation > accumulation || accumulation % steps_per_generation != 0; }
};

// Throws UserError(usage) where numbers do not divide.
Geometry make_geometry(const GeometryConfig& config, int64_t micro_batch, int64_t accumulation, int64_t processes);

}  // namespace hone::train::rl
