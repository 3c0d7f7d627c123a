// Fast multiplication instructions of this processor. Detected once.
#pragma once

namespace hone::device {

struct CpuFeatures {
  bool amx_bf16 = false, avx512_bf16 = false, avx512_fp16 = false, avx512_vnni = false, arm_bf16 = false;
  bool scalar_16_bit_gemm = false;  // without 16-bit instructions, libtorch's 16-bit products are scalar code
  bool int8_dot = false;            // sums of products of bytes: AVX2, AVX-512's VNNI, Arm's dot products
  bool int8_matrix = false;         // Arm's products of small matrices of bytes (I8MM)
  int sve_bytes = 0;                // of Arm's scalable vectors, 0 where there are none
  bool bfloat16() const { return amx_bf16 || avx512_bf16 || arm_bf16; }
};

const CpuFeatures& cpu_features();

}  // namespace hone::device
