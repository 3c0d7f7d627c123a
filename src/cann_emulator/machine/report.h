// Usage report: launches by operator, copies, waits, and calls that the emulator lacks. At exit each process appends one line of
// JSON to the file HONE_EMULATED_REPORT. "queued" counts the work of torch_npu's task queue threads: launches at
// TASK_QUEUE_ENABLE=1, at 2 also their preparation.
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
