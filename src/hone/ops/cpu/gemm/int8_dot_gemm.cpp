#include "hone/ops/cpu/gemm/int8_dot_gemm.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/packed_layout.h"
#include "hone/ops/cpu/gemm/x86/integer_dots.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {

bool has_int8_dot() { return device::cpu_features().int8_dot; }

#if !defined(__aarch64__)  // arm/int8_dot_gemm_neon.cpp has its own

namespace {

using Bytes = int8_t __attribute__((vector_size(16)));

HONE_INLINE void store_bytes(int8_t* to, F32x16 integers) {
  const Bytes bytes = __builtin_convertvector(__builtin_convertvector(integers, I32x16), Bytes);
  std::memcpy(to, &bytes, sizeof bytes);
}

}  // namespace

HONE_CPU_KERNEL void quantize_activations(const float* x, const QuantizedActivations& rounded, int64_t rows, int64_t width) {
  const int64_t groups = padded_groups(width);
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t i = 0; i < width; i += kPackedGroup) {
      const F32x16 a = load(x + m * width + i, FullVector{}), b = load(x + m * width + i + kVectorWidth, FullVector{});
      const float largest = max(max(max(a, -a), max(b, -b)));
      const float scale = largest / 127 + horizontal_sum(a * 0.0f + b * 0.0f);  // non-finite values stay non-finite
      const F32x16 first = to_integers(a * (largest > 0 ? 127 / largest : 0)),
                   second = to_integers(b * (largest > 0 ? 127 / largest : 0));
      int8_t* even = rounded.codes + m * width + i / kPackedBlock * kPackedBlock + i % kPackedBlock / 2;
      store_bytes(even, __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
      store_bytes(even + kPackedBlock / 2,
                  __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
      float* scales = rounded.scales + (m * width + i) / 8;
      scales[0] = scales[1] = scales[2] = scales[3] = scale;
      rounded.sums[m * groups + i / kPackedGroup] = scale * horizontal_sum(first + second);
    }
    for (int64_t g = width / kPackedGroup; g < groups; ++g) rounded.sums[m * groups + g] = 0;
  }
}

#endif

#if defined(__x86_64__)

void int8_dot_int4_weights(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                           const SkinnyShape& shape) {
  (device::cpu_features().avx512_vnni ? byte_outputs_vnni : byte_outputs_avx2)(x, codes, scales, y, shape);
}

#elif !defined(__aarch64__)

void int8_dot_int4_weights(const QuantizedActivations&, const int32_t*, const c10::BFloat16*, float*, const SkinnyShape&) {
  HONE_CHECK(false, "asked only where has_int8_dot()");
}

#endif

}  // namespace hone::ops::cpu
