// How many of the machine's cores one thread's work may use, where several threads compute side by side.
#pragma once

namespace hone::device {

// Once, when the program starts and has no other threads. Threads that compute together wait for each other many times a
// millisecond, so on cores that others use too, each must get its turn soon rather than long: the kernel is set to short
// turns, which the threads started later inherit. And there are no more threads than the control group's quota has cores, unless
// a person chose their number.
void settle_threads(bool chosen);

int num_threads();                // that the calling thread's work uses now
void set_num_threads(int count);  // of the calling thread alone; at least one

}  // namespace hone::device
