#include "hone/device/device.h"

#include <charconv>

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"

namespace hone::device {
namespace {

std::string available() {
  auto accelerator = at::getAccelerator();
  int count = accelerator ? at::accelerator::deviceCount() : 0;
  if (count == 0) return "cpu";
  auto name = c10::DeviceTypeName(*accelerator, /*lower_case=*/true);
  return count == 1 ? fmt::format("cpu, {}:0", name) : fmt::format("cpu, {0}:0 … {0}:{1}", name, count - 1);
}

[[noreturn]] void fail_unavailable(std::string_view name) {
  throw UserError(ExitCode::usage, fmt::format("device \"{}\" is not here; found: {}", name, available()),
                  "use --device auto, or install a libtorch built for that device");
}

}  // namespace

at::Device pick(std::string_view name) {
  auto accelerator = at::getAccelerator();
  int count = accelerator ? at::accelerator::deviceCount() : 0;
  if (name == "cpu") return at::kCPU;
  if (name == "auto" || name.empty()) return count > 0 ? at::Device(*accelerator, 0) : at::Device(at::kCPU);

  auto colon = name.find(':');
  auto kind = name.substr(0, colon);
  int index = 0;
  if (colon != std::string_view::npos) {
    auto digits = name.substr(colon + 1);
    auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (status != std::errc() || end != digits.data() + digits.size() || index < 0) fail_unavailable(name);
  }
  if (count <= index || c10::DeviceTypeName(*accelerator, true) != kind) fail_unavailable(name);
  return at::Device(*accelerator, static_cast<at::DeviceIndex>(index));
}

std::string describe(at::Device device) {
  if (!device.is_cpu()) return device.str();
  const auto& features = cpu_features();
  const char* bf16 = features.amx_bf16 ? ", bf16 by AMX" : features.avx512_bf16 ? ", bf16 by AVX-512" : features.arm_bf16 ? ", bf16" : "";
  return fmt::format("cpu ({} threads{})", at::get_num_threads(), bf16);
}

bool computes_bfloat16(at::Device device) { return !device.is_cpu() || cpu_features().bfloat16(); }
bool computes_float16(at::Device device) { return !device.is_cpu() || cpu_features().avx512_fp16; }

void synchronize(at::Device device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

void seed(uint64_t value) { at::manual_seed(value); }

}  // namespace hone::device
