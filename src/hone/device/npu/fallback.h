// Operators that have no kernel on the NPU, or one that returns what it did not write, and are computed on the CPU, with copies
// both ways: counted, and named once each.
#pragma once
#include <map>
#include <string>

namespace hone::device::npu {

// Takes the place of torch_npu's silent substitute for these operators. After torch_npu is loaded.
void count_fallbacks();

// How often each fell back so far: {"aten::cholesky": 3}.
std::map<std::string, long> fallbacks();
std::string fallback_summary();  // one line; empty when there were none

}  // namespace hone::device::npu
