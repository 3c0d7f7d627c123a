// Sums and counts under names, added up over processes that need not know the same names.
#pragma once
#include <map>
#include <string>

#include "hone/train/group.h"

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

// Afterwards every process holds the sums of all of them, under every name that any of them had.
void sum_by_name(SumsByName& sums, Group& group);

}  // namespace hone::train
