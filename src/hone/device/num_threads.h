// The number of threads per computing thread, if several compute concurrently.
#pragma once

namespace hone::device {

// Call it once at program start, before other threads exist. Compute threads synchronize many times per millisecond, so on
// shared cores no thread may wait long for a core: the kernel is set to short time slices, which later threads inherit. Also
// limits the number of threads to the cgroup's quota unless the user set it.
void settle_threads(bool chosen);

int num_threads();                // that the calling thread's work uses now
void set_num_threads(int count);  // of the calling thread alone; at least one

}  // namespace hone::device
