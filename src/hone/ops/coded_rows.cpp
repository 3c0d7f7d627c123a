#include "hone/ops/coded_rows.h"

#include "hone/base/error.h"
#include "hone/ops/float8_linear.h"

namespace hone::ops {
namespace {

at::ScalarType cache_float_type(CacheCode code) { return code == CacheCode::fp8_e5m2 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn; }
double cache_float_limit(CacheCode code) { return code == CacheCode::fp8_e5m2 ? kE5m2.largest : kE4m3.largest; }

}  // namespace

bool keeps_codes(CacheCode code, at::Device device) {
  return code == CacheCode::plain || has_scales(code) || device.is_cpu() || device.is_cuda();
}

int64_t coded_bytes(CacheCode code, int64_t head_dim) {
  HONE_CHECK(code != CacheCode::plain, "values as computed have no code");
  HONE_CHECK(code != CacheCode::int4 || head_dim % 2 == 0, "two values share a byte; a head has {}", head_dim);
  return code == CacheCode::int4 ? head_dim / 2 : head_dim;
}

CodedRows coded_rows(const Tensor& x, CacheCode code) {
  auto values = x.to(at::kFloat);
  if (!has_scales(code)) return {values.clamp(-cache_float_limit(code), cache_float_limit(code)).to(cache_float_type(code)).view(at::kByte), {}};
  const double steps = code == CacheCode::int8 ? 255.0 : 15.0;
  auto [low, high] = at::aminmax(values, -1, /*keepdim=*/true);
  auto step = ((high - low) / steps).clamp_min(1e-30);
  auto codes = at::round((values - low) / step).clamp(0, steps).to(at::kByte);
  if (code == CacheCode::int4) {
    auto halves = codes.unflatten(-1, {2, -1});  // a byte holds a value of the first half of the head and one of the second
    codes = at::bitwise_or(halves.select(-2, 0), at::bitwise_left_shift(halves.select(-2, 1), 4));
  }
  return {codes, at::cat({step, low}, -1)};
}

Tensor decoded_rows(const CodedRows& rows, CacheCode code, at::ScalarType dtype) {
  if (!has_scales(code)) return rows.codes.contiguous().view(cache_float_type(code)).to(dtype);
  auto codes = rows.codes;
  if (code == CacheCode::int4) codes = at::cat({at::bitwise_and(codes, 15), at::bitwise_right_shift(codes, 4)}, -1);
  return (codes.to(at::kFloat) * rows.scales.narrow(-1, 0, 1) + rows.scales.narrow(-1, 1, 1)).to(dtype);
}

}  // namespace hone::ops
