// All-gather of lists, concatenated in the order of ranks.
#pragma once
#include <string>
#include <vector>

#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train::rl {

// Every process has the same number.
std::vector<double> gather(const std::vector<double>& own, ParallelStrategy& group);
std::vector<std::string> gather(const std::vector<std::string>& own, ParallelStrategy& group);

}  // namespace hone::train::rl
