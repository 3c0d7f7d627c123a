#include "hone/device/num_threads.h"

#include <omp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "hone/base/usable_cores.h"
#include "hone/device/tensor.h"

namespace hone::device {
namespace {

// From linux/sched/types.h, which cannot be included together with sched.h.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes), policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};

// From Linux 6.12 on, the runtime of an ordinary thread is its time slice; earlier kernels ignore it. The thread's share of the
// core is unchanged.
void request_short_time_slices() {
  constexpr uint64_t kTimeSlice = 100'000;  // nanoseconds, the minimum
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.runtime = kTimeSlice;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void settle_threads(bool chosen) {
  request_short_time_slices();
  if (!chosen && usable_cores() < at::get_num_threads()) at::set_num_threads(usable_cores());
}

int num_threads() { return at::get_num_threads(); }

void set_num_threads(int count) {
  at::get_num_threads();  // libtorch initializes a new thread on its first query and would undo the setting below
  omp_set_num_threads(std::max(1, count));
}

}  // namespace hone::device
