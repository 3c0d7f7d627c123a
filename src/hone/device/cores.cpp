#include "hone/device/cores.h"

#include <omp.h>

#include <algorithm>

#include "hone/device/tensor.h"

namespace hone::device {

int cores() { return at::get_num_threads(); }

void use_cores(int count) {
  at::get_num_threads();  // libtorch sets a new thread up on its first question, and would undo what follows
  omp_set_num_threads(std::max(1, count));
}

}  // namespace hone::device
