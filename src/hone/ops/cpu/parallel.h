// Dynamic scheduling of work among threads. libtorch's parallel_for assigns equal parts in advance, and all threads wait for the
// one whose core is busy.
#pragma once
#include <algorithm>
#include <atomic>

#include "hone/device/tensor.h"
#include "hone/ops/cpu/thread_team.h"

namespace hone::ops::cpu {

// body(begin, end) over [0, count) in pieces of at least `grain`. The result of a piece must not depend on its end. For kernels
// only: a body that calls libtorch's operators belongs to parallel_tasks.
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

// The same one by one on libtorch's threads, whose operators then do not start further threads.
template <class Body>
void parallel_tasks(int64_t count, Body body) {
  const int64_t threads = ThreadTeam::is_inside() || at::in_parallel_region() ? 1 : at::get_num_threads();
  std::atomic<int64_t> next{0};
  at::parallel_for(0, std::min(threads, count), 1, [&](int64_t, int64_t) {
    for (int64_t task; (task = next.fetch_add(1)) < count;) body(task);
  });
}

}  // namespace hone::ops::cpu
