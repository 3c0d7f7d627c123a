#include "hone/serve/workers.h"

#include <algorithm>

#include "hone/base/error.h"

namespace hone::serve {

Workers::Task::Task(Starts& starts) : began_(nullptr) {
  auto now = Clock::now().time_since_epoch().count();
  for (auto& start : starts)
    if (int64_t free = 0; start.compare_exchange_strong(free, now)) {
      began_ = &start;
      return;
    }
  HONE_CHECK(began_, "more tasks than threads");
}

std::chrono::milliseconds Workers::all_busy_for() const {
  int64_t last = 0;
  for (const auto& start : began_) {
    int64_t began = start;
    if (began == 0) return {};
    last = std::max(last, began);
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch() - std::chrono::nanoseconds(last));
}

}  // namespace hone::serve
