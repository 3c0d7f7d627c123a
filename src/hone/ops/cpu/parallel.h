// Dynamic scheduling of work among threads. libtorch's parallel_for assigns equal parts in advance, and all threads wait for the
// one whose core is busy.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "hone/device/tensor.h"
#include "hone/ops/cpu/thread_team.h"

namespace hone::ops::cpu {

// The remaining work of one thread. That thread takes ranges from its front, and others steal from it when their own is done.
struct alignas(64) WorkRange {
  std::atomic<int64_t> next{0};
  int64_t end = 0;

  // Half of what is left, at least `least` and at most `most`, so that the last ranges are short.
  std::optional<std::pair<int64_t, int64_t>> take(int64_t least, int64_t most) {
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < end) {
      const int64_t last = std::min(end, begin + std::clamp((end - begin) / 2, least, most));
      if (next.compare_exchange_weak(begin, last, std::memory_order_relaxed)) return std::pair(begin, last);
    }
    return std::nullopt;
  }
};

// body(begin, end) over [0, count) in pieces of at least `grain`, but for the last ones. The result of a piece must not depend on
// its end. Each thread starts with a part of its own, so that it reads memory sequentially: a Neoverse-N1 reads pieces of 64 KB
// that alternate between two threads at 33 GB/s, its own part at 39. For kernels only: a body that calls libtorch's operators
// belongs to parallel_tasks.
template <class Body>
void parallel_pieces(int64_t count, int64_t grain, Body body) {
  const int64_t allowed = ThreadTeam::is_inside() || at::in_parallel_region() ? 1 : at::get_num_threads();
  if (count <= grain || allowed == 1) return count > 0 ? body(int64_t{0}, count) : void();
  const int64_t threads = std::min(allowed, (count + grain - 1) / grain), most = std::max(grain, count / (8 * threads));
  const auto ranges = std::make_unique<WorkRange[]>(static_cast<size_t>(threads));
  for (int64_t i = 0; i < threads; ++i) ranges[i].next = count * i / threads, ranges[i].end = count * (i + 1) / threads;
  std::atomic<int64_t> arrived{0};
  auto work = [&] {
    const int64_t own = arrived.fetch_add(1, std::memory_order_relaxed);
    for (int64_t i = 0; i < threads; ++i)
      while (const auto piece = ranges[(own + i) % threads].take(grain, most)) body(piece->first, piece->second);
  };
  ThreadTeam::own().run(static_cast<int>(threads), work);
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
