// Explanations and fixes for the error messages of CANN, HCCL and torch_npu.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hone/base/error.h"

namespace hone::device::npu {

struct Explanation {
  ExitCode code;
  std::string cause, advice;
};

// By the error code in the text; nullopt when it names none that is known.
std::optional<Explanation> explain(std::string_view text);

}  // namespace hone::device::npu
