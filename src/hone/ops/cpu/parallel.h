// Work shared out among threads as they come for it. libtorch's parallel_for gives each thread an equal part beforehand, and all
// wait for the one whose core does something else.
#pragma once
#include <algorithm>
#include <atomic>

#include "hone/device/tensor.h"
#include "hone/ops/cpu/thread_team.h"

namespace hone::ops::cpu {

// body(begin, end) over [0, count) in pieces of at least `grain`. What a piece computes must not depend on where it ends. Kernels
// alone: a body that calls libtorch's operators belongs to parallel_tasks.
template <class Body>
void parallel_pieces(int64_t count, int64_t grain, Body body) {
  const int64_t threads = ThreadTeam::is_inside() || at::in_parallel_region() ? 1 : at::get_num_threads();
  if (count <= grain || threads == 1) return count > 0 ? body(int64_t{0}, count) : void();
  const int64_t piece = std::max(grain, count / (8 * threads));  // few enough that taking one costs nothing
  std::atomic<int64_t> next{0};
  auto take = [&] {
    for (int64_t begin; (begin = next.fetch_add(piece)) < count;) body(begin, std::min(begin + piece, count));
  };
  ThreadTeam::own().run(static_cast<int>(std::min(threads, (count + piece - 1) / piece)), take);
}

// The same one by one on libtorch's threads, where its operators know that they are not alone.
template <class Body>
void parallel_tasks(int64_t count, Body body) {
  const int64_t threads = ThreadTeam::is_inside() || at::in_parallel_region() ? 1 : at::get_num_threads();
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min(threads, count), 1, [&](int64_t, int64_t) {
    for (int64_t task; (task = next.fetch_add(1)) < count;) body(task);
  });
}

}  // namespace hone::ops::cpu
