// Named places where a test may make the program fail: "checkpoint.before_rename:kill[:n-th call, 1 by default; "3+" is the third
// and all that follow]". The command line sets what HONE_FAULT says.
#pragma once
#include <string_view>

namespace hone {

void set_fault(std::string_view plan);  // once, before other threads; "" is none

// Actions: kill (SIGKILL to ourselves), throw (an InternalError), enospc (a "no space left" error), nan (returns true so that the
// caller spoils its value), sleep (a minute), hang (forever). Returns whether an active `nan` fault is due here. Costs one
// comparison when none is set.
bool fault(std::string_view point);

}  // namespace hone
