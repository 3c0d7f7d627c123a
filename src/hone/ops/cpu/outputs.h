// How the outputs of a linear layer are shared out among threads.
#pragma once
#include "hone/ops/cpu/parallel.h"

namespace hone::ops::cpu {

// compute(first, count) over pieces of the outputs, large enough to be worth a thread.
template <class Compute>
void for_outputs(int64_t outputs, int64_t width, Compute compute) {
  const int64_t piece = std::max<int64_t>(8, 65536 / width / 8 * 8);
  parallel_pieces((outputs + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
    int64_t first = begin * piece;
    compute(first, std::min(end * piece, outputs) - first);
  });
}

}  // namespace hone::ops::cpu
