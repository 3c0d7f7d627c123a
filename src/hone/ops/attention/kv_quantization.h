// Quantizes and dequantizes rows of a head's keys or values for the cache.
#pragma once
#include "hone/device/tensor.h"
#include "hone/ops/attention/kv_cache_dtype.h"

namespace hone::ops {

// Bytes of one row of `head_dim` values, scales not counted.
int64_t kv_row_bytes(KvCacheDtype code, int64_t head_dim);
inline bool has_scales(KvCacheDtype code) { return code == KvCacheDtype::int8 || code == KvCacheDtype::int4; }

bool supports_kv_cache_dtype(KvCacheDtype code, at::Device device);  // NPUs have no 8-bit floats

struct QuantizedKv {
  Tensor codes;   // uint8 [..., kv_row_bytes]
  Tensor scales;  // float32 [..., 2]: the step between two codes and the value of code 0; undefined for floats
};

// x [..., head_dim]. Values beyond the float8 range saturate. These compositions define the codes.
QuantizedKv quantize_kv(const Tensor& x, KvCacheDtype code);
Tensor dequantize_kv(const QuantizedKv& rows, KvCacheDtype code, at::ScalarType dtype);

}  // namespace hone::ops
