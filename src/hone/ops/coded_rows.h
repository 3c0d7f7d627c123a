// Rows of a head's keys or values in fewer bits: the form in which a cache keeps them, and back.
#pragma once
#include "hone/device/tensor.h"
#include "hone/ops/cache_code.h"

namespace hone::ops {

// Bytes of one row of `head_dim` values, scales not counted.
int64_t coded_bytes(CacheCode code, int64_t head_dim);
inline bool has_scales(CacheCode code) { return code == CacheCode::int8 || code == CacheCode::int4; }

bool keeps_codes(CacheCode code, at::Device device);  // NPUs have no 8-bit floats

struct CodedRows {
  Tensor codes;   // uint8 [..., coded_bytes]
  Tensor scales;  // float32 [..., 2]: the step between two codes and the value of code 0; undefined for floats
};

// x [..., head_dim]. Floats beyond the range of their code become its greatest. These compositions define the codes.
CodedRows coded_rows(const Tensor& x, CacheCode code);
Tensor decoded_rows(const CodedRows& rows, CacheCode code, at::ScalarType dtype);

}  // namespace hone::ops
