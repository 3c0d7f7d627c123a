#include "hone/device/cpu_features.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <unordered_set>

namespace hone::device {
namespace {

// The kernel's list names only what it lets a program use, which cpuid does not know.
std::unordered_set<std::string> kernel_flags() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    auto flags = kernel_flags();
    return CpuFeatures{flags.contains("amx_bf16"), flags.contains("avx512_bf16"), flags.contains("avx512_fp16"), flags.contains("bf16"),
                       flags.contains("avx512_vnni") || flags.contains("asimddp")};
  }();
  return features;
}

}  // namespace hone::device
