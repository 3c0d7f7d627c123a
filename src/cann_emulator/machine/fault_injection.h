// Fault injection. HONE_EMULATED_FAULT lists faults: "kernel@120,hccl@3,lost@200" makes the 120th launch of a process fail with
// an aicore exception (507015), its third collective time out, and the card disappear at the 200th launch. "kernel@5:aclnnMatmul"
// counts only that operator; "lost@10/1" applies only to the process whose RANK is 1.
#pragma once
#include <string_view>

namespace cann::faults {

enum class Kind { none, kernel, lost, hccl };

Kind fault_at_launch(std::string_view op);  // the fault of this launch
bool at_collective();                       // whether this one times out

}  // namespace cann::faults
