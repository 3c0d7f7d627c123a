// libtorch and its build options, drivers and toolkits, optional components of hone.
#include <torch/version.h>

#include <cstdlib>

#include "hone/base/file.h"
#include "hone/base/progress.h"
#include "hone/cli/doctor/check.h"
#include "hone/cli/line_editor.h"
#include "hone/data/readers/parquet.h"
#include "hone/device/cpu_features.h"
#include "hone/device/cuda_library.h"
#include "hone/device/inventory.h"
#include "hone/device/libtorch.h"
#include "hone/device/tensor.h"
#include "hone/hub/download.h"
#include "hone/train/reports/figure.h"

namespace hone::cli::doctor {
namespace {

Finding torch_finding() {
  constexpr const char* kAbi = _GLIBCXX_USE_CXX11_ABI ? "C++11 ABI" : "old ABI";
  return {Severity::good, "libtorch",
          fmt::format("{}, {}, {}", TORCH_VERSION, kAbi, device::libtorch_made_for_cuda() ? "made for CUDA" : "for CPUs"),
          device::libtorch_folder().string()};
}

Finding cuda_finding() {
  auto driver = device::cuda_driver();
  if (driver.empty()) return {Severity::absent, "CUDA driver", "not installed", "only needed for NVIDIA devices"};
  if (!at::hasCUDA())
    return {Severity::bad, "CUDA driver", driver + ", but libtorch cannot use a device",
            "install a torch wheel with CUDA, or check the driver with nvidia-smi"};
  if (!device::has_cuda_kernels())
    return {Severity::warning, "CUDA driver", driver + ", but hone was built without nvcc and has no GPU kernels",
            "training and generation are about twice as fast with them: make setup clean build"};
  return {Severity::good, "CUDA driver", driver, "hone's GPU kernels are built in"};
}

Finding cpu_finding() {
  const auto& features = device::cpu_features();
  if (!features.bfloat16())
    return {Severity::good, "CPU arithmetic", "float32",
            "no bf16 instructions: bf16 weights are upcast to float32 in the kernels"};
  auto how = features.amx_bf16 ? "AMX" : features.avx512_bf16 ? "AVX512-BF16" : "ARM bf16";
  return {Severity::good, "CPU arithmetic", fmt::format("float32, bf16 by {}", how), ""};
}

}  // namespace

Findings check_software() {
  Findings out{torch_finding(), cpu_finding(), cuda_finding()};
  if (data::can_read_parquet())
    out.push_back({Severity::good, "Parquet", "Arrow is built in", ""});
  else
    out.push_back({Severity::warning, "Parquet", "built without Arrow",
                   "to read .parquet files: .venv/bin/pip install pyarrow, then make build"});
  if (hub::can_download())
    out.push_back({Severity::good, "Downloads", "libcurl is built in", ""});
  else
    out.push_back({Severity::warning, "Downloads", "built without libcurl",
                   "to fetch models by name: apt install libcurl4-openssl-dev libssl-dev, then make build"});
  if (train::can_draw())
    out.push_back({Severity::good, "Plots", "Cairo is built in", ""});
  else
    out.push_back({Severity::warning, "Plots", "built without Cairo",
                   "to see training curves: apt install libcairo2-dev libfontconfig-dev, then make build"});
  if (!has_line_editor())
    out.push_back({Severity::warning, "Line editing", "built without libedit",
                   "for cursor keys and history in chats: apt install libedit-dev, then make build"});
  return out;
}

Findings examine_devices() {
  Findings out;
  for (const auto& d : device::inventory())
    out.push_back({d.error.empty() ? Severity::good : Severity::bad, d.name,
                   fmt::format("{}, {}", d.model, format_bytes(static_cast<double>(d.memory_total))), d.error});
  return out;
}

}  // namespace hone::cli::doctor
