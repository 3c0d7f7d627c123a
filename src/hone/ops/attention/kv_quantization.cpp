#include "hone/ops/attention/kv_quantization.h"

#include "hone/base/error.h"
#include "hone/ops/linear/float8_linear.h"

namespace hone::ops {
namespace {

at::ScalarType cache_float_type(KvCacheDtype code) {
  return code == KvCacheDtype::fp8_e5m2 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
}
double cache_float_limit(KvCacheDtype code) { return code == KvCacheDtype::fp8_e5m2 ? kE5m2.largest : kE4m3.largest; }

}  // namespace

bool supports_kv_cache_dtype(KvCacheDtype code, at::Device device) {
  return code == KvCacheDtype::plain || has_scales(code) || device.is_cpu() || device.is_cuda();
}

int64_t kv_row_bytes(KvCacheDtype code, int64_t head_dim) {
  HONE_CHECK(code != KvCacheDtype::plain, "values as computed have no code");
  HONE_CHECK(code != KvCacheDtype::int4 || head_dim % 2 == 0, "two values share a byte; a head has {}", head_dim);
  return code == KvCacheDtype::int4 ? head_dim / 2 : head_dim;
}

QuantizedKv quantize_kv(const Tensor& x, KvCacheDtype code) {
  auto values = x.to(at::kFloat);
  if (!has_scales(code))
    return {values.clamp(-cache_float_limit(code), cache_float_limit(code)).to(cache_float_type(code)).view(at::kByte), {}};
  const double steps = code == KvCacheDtype::int8 ? 255.0 : 15.0;
  auto [low, high] = at::aminmax(values, -1, /*keepdim=*/true);
  auto step = ((high - low) / steps).clamp_min(1e-30);
  auto codes = at::round((values - low) / step).clamp(0, steps).to(at::kByte);
  if (code == KvCacheDtype::int4) {
    auto halves = codes.unflatten(-1, {2, -1});  // a byte holds one value of the first half of the head and one of the second
    codes = at::bitwise_or(halves.select(-2, 0), at::bitwise_left_shift(halves.select(-2, 1), 4));
  }
  return {codes, at::cat({step, low}, -1)};
}

Tensor dequantize_kv(const QuantizedKv& rows, KvCacheDtype code, at::ScalarType dtype) {
  if (!has_scales(code)) return rows.codes.contiguous().view(cache_float_type(code)).to(dtype);
  auto codes = rows.codes;
  if (code == KvCacheDtype::int4) codes = at::cat({at::bitwise_and(codes, 15), at::bitwise_right_shift(codes, 4)}, -1);
  return (codes.to(at::kFloat) * rows.scales.narrow(-1, 0, 1) + rows.scales.narrow(-1, 1, 1)).to(dtype);
}

}  // namespace hone::ops
