// Operators that never reach CANN: torch_npu computes those without a kernel on the CPU. They are counted in libtorch.
#pragma once

namespace cann {

void watch_fallbacks();  // includes them in the report from now on

}  // namespace cann
