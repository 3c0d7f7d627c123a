// ms-swift's --eval_use_evalscope: benchmarks of the model that trains, whenever it is evaluated.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/evaluation/benchmark.h"

namespace hone::cli {

// Empty if none is requested. Names and settings are validated now. Throws UserError(usage).
train::Benchmark training_benchmark(const Options& options);

}  // namespace hone::cli
