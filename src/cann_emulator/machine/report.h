// What the program used of the cards: launches by operator, copies, waits, and calls that the emulator lacks.
// Each process adds one line of JSON to the file HONE_EMULATED_REPORT names when it ends. "queued" counts what torch_npu's queue
// did beside the program's own threads: launches at TASK_QUEUE_ENABLE=1, their preparation too at 2.
#pragma once
#include <string_view>

namespace cann::report {

void prepared();  // an operator's first phase
void launched(std::string_view op);
void missing(std::string_view what);
void fell_back(std::string_view op);  // computed on the CPU by torch_npu or hone, for lack of a kernel
void copied(int kind, size_t bytes);
void became_deterministic();
void waited();  // the host waited for a stream, an event or a device

}  // namespace cann::report
