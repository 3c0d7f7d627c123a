// docs/compatibility.md: every flag and key of ms-swift and LLaMA-Factory with what hone does, and every variable.
#pragma once
#include <string>

namespace hone::cli::compat {

std::string compatibility_markdown();

}  // namespace hone::cli::compat
