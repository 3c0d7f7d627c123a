// What all processes have, on all processes: lists of one process after those of the one before it.
#pragma once
#include <string>
#include <vector>

#include "hone/train/group.h"

namespace hone::train::rl {

// Every process brings as many.
std::vector<double> gather(const std::vector<double>& own, Group& group);
std::vector<std::string> gather(const std::vector<std::string>& own, Group& group);

}  // namespace hone::train::rl
