// The last error's text, as aclGetRecentErrMsg gives it to torch_npu, which prints it under its own message.
#pragma once
#include <string>

#include "cann_emulator/acl/types.h"

namespace cann {

// Stores the text and returns the code, so that a failing function is one line: return fail(kInvalidDevice, "...").
Status fail(Status code, std::string text);
std::string take_error();  // and clears it

}  // namespace cann
