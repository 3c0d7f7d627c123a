// Quantizes and dequantizes one row on the CPU; ops/attention/kv_quantization.h defines the codes.
#pragma once
#include <cstdint>

#include "hone/ops/attention/kv_cache_dtype.h"

namespace hone::ops::cpu {

// `scales` is null for float8, else receives the step and the value of code 0.
void quantize_kv_row(const float* values, int64_t head_dim, KvCacheDtype code, uint8_t* codes, float* scales);
void dequantize_kv_row(const uint8_t* codes, const float* scales, int64_t head_dim, KvCacheDtype code, float* values);

}  // namespace hone::ops::cpu
