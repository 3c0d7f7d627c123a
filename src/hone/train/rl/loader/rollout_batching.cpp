#include "hone/train/rl/loader/rollout_batching.h"

#include <numeric>
#include <vector>

#include "hone/base/error.h"
#include "hone/base/strings/counted.h"

namespace hone::train::rl {
namespace {

int64_t steps_of(const RolloutBatchingConfig& config, int64_t batch, int64_t accumulation) {
  if (!config.generation_batch_size) return config.steps_per_generation.value_or(accumulation);
  int64_t whole = *config.generation_batch_size;
  if (whole % batch != 0)
    throw UserError(
        ExitCode::usage,
        fmt::format("`generation_batch_size` {} is not a multiple of the {} completions per micro-batch over all processes",
                    whole, batch),
        "choose a multiple of `per_device_train_batch_size` times the number of processes");
  if (config.steps_per_generation && *config.steps_per_generation * batch != whole)
    throw UserError(
        ExitCode::usage,
        fmt::format(
            "`generation_batch_size` {} and `steps_per_generation` {} contradict each other: {} batches of {} completions are {}",
            whole, *config.steps_per_generation, *config.steps_per_generation, batch, *config.steps_per_generation * batch),
        "set one of them");
  return whole / batch;
}

}  // namespace

RolloutBatching make_rollout_batching(const RolloutBatchingConfig& config, int64_t micro_batch, int64_t accumulation,
                                      int64_t processes) {
  RolloutBatching made{micro_batch, accumulation, processes, config.generations, config.iterations, 1};
  made.steps_per_generation = steps_of(config, micro_batch * processes, accumulation);
  if (config.generations < config.least_generations)
    throw UserError(ExitCode::usage, "`num_generations` is 1; group-relative advantages need at least 2 completions per prompt",
                    "set it to 2 or more, or name a teacher, which suffices alone unless it only weighs advantages");
  if (config.whole_groups && micro_batch % config.generations != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("the loss compares the {} completions of a prompt, and batches of {} hold no full groups",
                                config.generations, micro_batch),
                    "make `per_device_train_batch_size` a multiple of `num_generations`");
  if (made.num_completions() % config.generations == 0) return made;
  std::vector<int64_t> fitting;
  for (int64_t count = 2; count <= made.num_completions(); ++count)
    if (made.num_completions() % count == 0) fitting.push_back(count);
  const int64_t whole_batch = config.generations / std::gcd(config.generations, processes * made.steps_per_generation);
  auto larger = fmt::format("`per_device_train_batch_size` {} or a multiple of it", whole_batch);
  throw UserError(
      ExitCode::usage,
      fmt::format("a rollout of {} (`per_device_train_batch_size` {} x processes {} x `steps_per_generation` {}) does "
                  "not divide into groups of `num_generations` {}",
                  counted(made.num_completions(), "completion"), micro_batch, processes, made.steps_per_generation,
                  config.generations),
      fitting.empty() ? "set " + larger
                      : fmt::format("`num_generations` may be {}; or set {}", fmt::join(fitting, ", "), larger));
}

}  // namespace hone::train::rl
