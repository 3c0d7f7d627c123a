// AVX-512's integer dot products (VNNI), for functions marked HONE_VNNI on x86.
#pragma once
#if defined(__x86_64__)

#include "hone/base/x86_intrinsics.h"

#include "hone/ops/cpu/gemm/packed_layout.h"

#define HONE_VNNI __attribute__((target("arch=x86-64-v4,avx512vnni")))

namespace hone::ops::cpu {

constexpr int64_t kVnniRows = 8;  // that share the unpacked codes of two outputs

// Adds the products of four unsigned bytes with four signed ones to each of sixteen sums.
HONE_VNNI HONE_INLINE I32x16 add_byte_dots(I32x16 sums, Words codes, Words inputs) {
  return reinterpret_cast<I32x16>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums), reinterpret_cast<__m512i>(codes), reinterpret_cast<__m512i>(inputs)));
}
// Those of two 16-bit numbers with two others.
HONE_VNNI HONE_INLINE I32x16 add_pair_dots(I32x16 sums, Words codes, Words inputs) {
  return reinterpret_cast<I32x16>(
      _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sums), reinterpret_cast<__m512i>(codes), reinterpret_cast<__m512i>(inputs)));
}

}  // namespace hone::ops::cpu

#endif
