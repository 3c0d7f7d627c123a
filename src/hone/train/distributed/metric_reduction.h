// All-reduces named sums and counts over ranks that need not have the same names.
#pragma once
#include <map>
#include <string>

#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train {

struct SumAndCount {
  double sum = 0, count = 0;

  double mean() const { return count > 0 ? sum / count : 0.0; }
  SumAndCount& operator+=(const SumAndCount& other) {
    sum += other.sum;
    count += other.count;
    return *this;
  }
};
using SumsByName = std::map<std::string, SumAndCount>;

// Afterwards every process has the global sums under all names.
void all_reduce_metrics(SumsByName& sums, ParallelStrategy& group);

}  // namespace hone::train
