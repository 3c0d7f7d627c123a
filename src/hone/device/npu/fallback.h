// Operators without an NPU kernel, or with a faulty one, which are computed on the CPU with copies both ways: counted, and each
// logged once.
#pragma once
#include <map>
#include <string>

namespace hone::device::npu {

// Replaces torch_npu's silent CPU fallback for these operators. Call it after torch_npu is loaded.
void count_fallbacks();

// The number of fallbacks per operator so far: {"aten::cholesky": 3}.
std::map<std::string, long> fallbacks();
std::string fallback_summary();  // one line; empty when there were none

}  // namespace hone::device::npu
