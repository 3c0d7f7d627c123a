// 16-bit numbers widened, or not, whatever the processor has.
#pragma once
#include "hone/ops/linear/matmul.h"

namespace hone::ops {

struct UpcastGuard {
  explicit UpcastGuard(bool widen) { force_upcast(widen); }
  ~UpcastGuard() { force_upcast(std::nullopt); }
  UpcastGuard(const UpcastGuard&) = delete;
  UpcastGuard& operator=(const UpcastGuard&) = delete;
};

}  // namespace hone::ops
