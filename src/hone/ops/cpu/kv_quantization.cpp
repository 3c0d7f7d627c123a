#include "hone/ops/cpu/kv_quantization.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "hone/device/tensor.h"
#include "hone/ops/cpu/vector/kernels.h"
#include "hone/ops/linear/float8_linear.h"

namespace hone::ops::cpu {
namespace {

using FloatTable = std::array<float, 256>;

template <class Float8>
const FloatTable& values_of_float_codes() {
  static const FloatTable table = [] {
    FloatTable made;
    for (int code = 0; code < 256; ++code)
      made[static_cast<size_t>(code)] = Float8(static_cast<uint8_t>(code), Float8::from_bits());
    return made;
  }();
  return table;
}

template <class Float8>
void code_as_floats(const float* values, int64_t count, float greatest, uint8_t* codes) {
  for (int64_t i = 0; i < count; ++i) codes[i] = Float8(std::clamp(values[i], -greatest, greatest)).x;
}

void code_as_numbers(const float* values, int64_t count, KvCacheDtype code, uint8_t* codes, float* scales) {
  const auto [low, high] = std::minmax_element(values, values + count);
  const float steps = code == KvCacheDtype::int8 ? 255.0F : 15.0F, step = std::max((*high - *low) / steps, 1e-30F);
  scales[0] = step, scales[1] = *low;
  auto number = [&](float value) {
    return static_cast<uint8_t>(std::clamp(std::nearbyint((value - scales[1]) / step), 0.0F, steps));
  };
  const int64_t half = count / 2;
  if (code == KvCacheDtype::int8)
    for (int64_t i = 0; i < count; ++i) codes[i] = number(values[i]);
  else
    for (int64_t i = 0; i < half; ++i) codes[i] = static_cast<uint8_t>(number(values[i]) | number(values[half + i]) << 4);
}

}  // namespace

void quantize_kv_row(const float* values, int64_t head_dim, KvCacheDtype code, uint8_t* codes, float* scales) {
  if (code == KvCacheDtype::fp8_e5m2)
    return code_as_floats<c10::Float8_e5m2>(values, head_dim, static_cast<float>(kE5m2.largest), codes);
  if (code == KvCacheDtype::fp8_e4m3)
    return code_as_floats<c10::Float8_e4m3fn>(values, head_dim, static_cast<float>(kE4m3.largest), codes);
  code_as_numbers(values, head_dim, code, codes, scales);
}

void dequantize_kv_row(const uint8_t* codes, const float* scales, int64_t head_dim, KvCacheDtype code, float* values) {
  if (code == KvCacheDtype::int8) return widen_bytes(codes, scales[0], scales[1], head_dim, values);
  if (code == KvCacheDtype::int4) return widen_nibbles(codes, scales[0], scales[1], head_dim / 2, values);
  const auto& table =
      code == KvCacheDtype::fp8_e5m2 ? values_of_float_codes<c10::Float8_e5m2>() : values_of_float_codes<c10::Float8_e4m3fn>();
  for (int64_t i = 0; i < head_dim; ++i) values[i] = table[codes[i]];
}

}  // namespace hone::ops::cpu
