// Functions of libraries that are loaded at run time.
#pragma once
#include <dlfcn.h>

#include "hone/base/error.h"

namespace hone::device::npu {

constexpr auto kInstallHint = "hone doctor names what is missing and the command that fixes it";

template <class Function>
Function symbol(void* library, const char* name) {
  auto* found = ::dlsym(library, name);
  if (!found)
    throw UserError(ExitCode::usage, fmt::format("{} is missing in the library that should have it", name), kInstallHint);
  return reinterpret_cast<Function>(found);
}

}  // namespace hone::device::npu
