// How many of the machine's cores one thread's work may use, where several threads compute side by side.
#pragma once

namespace hone::device {

int cores();                // that the calling thread's work uses now
void use_cores(int count);  // of the calling thread alone; at least one

}  // namespace hone::device
