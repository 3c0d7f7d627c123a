// Operators that never reach CANN: torch_npu computes those without a kernel on the CPU. Nothing below it sees them, so libtorch
// is asked.
#pragma once

namespace cann {

void watch_fallbacks();  // from now on they are in the report

}  // namespace cann
