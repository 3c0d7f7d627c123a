// Coding and widening of one row on the CPU; coded_rows.h defines what they compute.
#pragma once
#include <cstdint>

#include "hone/ops/cache_code.h"

namespace hone::ops::cpu {

// `scales` is null for floats, else receives the step and the value of code 0.
void code_row(const float* values, int64_t head_dim, CacheCode code, uint8_t* codes, float* scales);
void widen_row(const uint8_t* codes, const float* scales, int64_t head_dim, CacheCode code, float* values);

}  // namespace hone::ops::cpu
