#include "hone/device/cpu_features.h"

// The features that the kernel lets programs use, not those of the processor: from /proc on x86, from the auxiliary vector on
// Arm.
#if defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

namespace hone::device {
namespace {

int sve_bytes() {
  const int length = (::getauxval(AT_HWCAP) & HWCAP_SVE) != 0 ? ::prctl(PR_SVE_GET_VL) : 0;
  return length > 0 ? length & PR_SVE_VL_LEN_MASK : 0;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features{.arm_bf16 = (::getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0,
                                    .scalar_16_bit_gemm = true,
                                    .int8_dot = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0,
                                    .int8_matrix = (::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0,
                                    .sve_bytes = sve_bytes()};
  return features;
}

}  // namespace hone::device

#else

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <unordered_set>

namespace hone::device {
namespace {

std::unordered_set<std::string> kernel_flags() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    auto flags = kernel_flags();
    return CpuFeatures{.amx_bf16 = flags.contains("amx_bf16"),
                       .avx512_bf16 = flags.contains("avx512_bf16"),
                       .avx512_fp16 = flags.contains("avx512_fp16"),
                       .avx512_vnni = flags.contains("avx512_vnni"),
                       .int8_dot = __builtin_cpu_supports("x86-64-v3") != 0};
  }();
  return features;
}

}  // namespace hone::device

#endif
