#include "hone/device/device.h"

#include <charconv>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/strings/counted.h"
#include "hone/device/cpu_features.h"
#include "hone/device/cuda_library.h"
#include "hone/device/npu.h"
#include "hone/device/npu/cards.h"
#include "hone/device/npu/variables.h"

namespace hone::device {
namespace {

std::string available() {
  auto accelerator = at::getAccelerator();
  int count = accelerator ? at::accelerator::deviceCount() : 0;
  if (count == 0) return npu::present() ? "cpu, npu" : "cpu";  // cards are counted when torch_npu is loaded
  auto name = c10::DeviceTypeName(*accelerator, /*lower_case=*/true);
  return count == 1 ? fmt::format("cpu, {}:0", name) : fmt::format("cpu, {0}:0 … {0}:{1}", name, count - 1);
}

[[noreturn]] void fail_unavailable(std::string_view name) {
  throw UserError(ExitCode::usage, fmt::format("device \"{}\" is not here; found: {}", name, available()),
                  available() != "cpu" ? "name one of these, or use `device` auto"
                                       : "use `device` auto, or install a libtorch built for that device");
}

[[noreturn]] void fail_no_card() {
  const auto visible = npu::visible_devices();
  throw UserError(
      ExitCode::usage,
      visible ? fmt::format("no NPU is visible with ASCEND_RT_VISIBLE_DEVICES={}", *visible) : "torch_npu sees no NPU",
      visible ? "name existing cards, in ascending order, with commas and without blanks" : "hone doctor names the cause");
}

// If there are more processes than devices.
[[noreturn]] void fail_beyond(int index, int count) {
  throw UserError(ExitCode::usage,
                  fmt::format("process {} of this machine has no device of its own; found: {}", index, available()),
                  fmt::format("one process per device: NPROC_PER_NODE={}, or `device` cpu", count));
}

// One process per device: "npu" and "auto" select the device of the local rank, "npu:4,5" the entry at that rank's index.
int own_index(std::string_view name, std::string_view list, int own) {
  if (list.empty()) return own;
  for (int place = 0; place < own && list.find(',') != list.npos; ++place) list.remove_prefix(list.find(',') + 1);
  auto digits = list.substr(0, list.find(','));
  int index = 0;
  auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (status != std::errc() || end != digits.data() + digits.size() || index < 0) fail_unavailable(name);
  return index;
}

}  // namespace

at::Device select_device(std::string_view name, int local_rank) {
  bool automatic = name == "auto" || name.empty();
  if (name.starts_with("npu") || (automatic && npu::present())) npu::load();
  auto accelerator = at::getAccelerator();
  int count = accelerator ? at::accelerator::deviceCount() : 0;
  if (name == "cpu") return at::kCPU;
  if (npu::loaded() && count == 0) fail_no_card();
  if (automatic && count == 0) return at::kCPU;
  auto colon = name.find(':');
  auto kind = name.substr(0, colon);
  bool by_rank = automatic || colon == name.npos;
  int index = own_index(name, by_rank ? "" : name.substr(colon + 1), local_rank);
  bool of_this_kind = automatic || (accelerator && c10::DeviceTypeName(*accelerator, true) == kind);
  if (!of_this_kind || name.ends_with(':') || count == 0 || (count <= index && !by_rank)) fail_unavailable(name);
  if (count <= index) fail_beyond(index, count);
  if (npu::loaded())
    if (auto cores = npu::bind_to_local_cores(index); !cores.empty())
      log::debug("npu:{}: on the cores near it, {}", index, cores);
  if (*accelerator == at::kCUDA && !has_cuda_kernels())
    log::warn_once("hone was built without nvcc and has no GPU kernels: training and generation are slower (`hone doctor`)");
  // Before the first tensor: a process that has not set its NPU allocates memory on the first one.
  at::accelerator::setDeviceIndex(static_cast<at::DeviceIndex>(index));
  return at::Device(*accelerator, static_cast<at::DeviceIndex>(index));
}

std::string describe(at::Device device) {
  if (device.is_privateuseone()) return fmt::format("{} ({})", device.str(), npu::soc());
  if (!device.is_cpu()) return device.str();
  const auto& features = cpu_features();
  const char* bf16 = features.amx_bf16      ? ", bf16 by AMX"
                     : features.avx512_bf16 ? ", bf16 by AVX-512"
                     : features.arm_bf16    ? ", bf16"
                                            : "";
  return fmt::format("cpu ({}{})", counted(at::get_num_threads(), "thread"), bf16);
}

bool supports_bfloat16(at::Device device) {
  if (device.is_privateuseone()) return npu::computes_bfloat16();
  return !device.is_cpu() || cpu_features().bfloat16();
}
bool supports_float16(at::Device device) { return !device.is_cpu() || cpu_features().avx512_fp16; }

at::ScalarType supported_dtype(at::ScalarType wanted, at::Device device) {
  if (wanted != at::kBFloat16 || device.is_cpu() || supports_bfloat16(device)) return wanted;
  log::warn_once(fmt::format("{} has no bfloat16: weights are float16", describe(device)));
  return at::kHalf;
}

void synchronize(at::Device device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

}  // namespace hone::device
