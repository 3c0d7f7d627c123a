// Bad days on request. HONE_EMULATED_FAULT lists them: "kernel@120,hccl@3,lost@200" makes the 120th launch of a process fail with
// an aicore exception (507015), its third collective time out, the card fall off the bus at the 200th launch.
// "kernel@5:aclnnMatmul" counts only that operator; a rank may be named too: "lost@10/1" happens in the process whose RANK is 1.
#pragma once
#include <string_view>

namespace cann::faults {

enum class Kind { none, kernel, lost, hccl };

Kind fault_at_launch(std::string_view op);  // what this launch shall meet
bool at_collective();                       // whether this one shall time out

}  // namespace cann::faults
