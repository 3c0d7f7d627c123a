// What all processes have, on all processes: lists of one process after those of the one before it.
#pragma once
#include <string>
#include <vector>

#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train::rl {

// Every process brings as many.
std::vector<double> gather(const std::vector<double>& own, ParallelStrategy& group);
std::vector<std::string> gather(const std::vector<std::string>& own, ParallelStrategy& group);

}  // namespace hone::train::rl
