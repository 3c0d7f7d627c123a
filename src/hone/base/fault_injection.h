// Named points at which a test can make the program fail: "checkpoint.before_rename:kill[:n-th call, 1 by default; "3+" is the
// third and all later ones]". Set from HONE_FAULT by the command line.
#pragma once
#include <string_view>

namespace hone {

void set_fault(std::string_view spec);  // once, before other threads; "" is none

// Actions: kill (SIGKILL to this process), throw (an InternalError), enospc (a "no space left" error), nan (returns true so that
// the caller corrupts its value), sleep (a minute), hang (forever). Returns whether a `nan` fault is due here. Costs one
// comparison if none is set.
bool fault(std::string_view point);

}  // namespace hone
