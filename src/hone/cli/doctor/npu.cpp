// Ascend NPUs: whether driver, CANN, torch and torch_npu are installed and compatible, whether the devices can be opened, and the
// three checks from the guides: availability, device count, a small computation.
#include <torch/version.h>

#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/strings/counted.h"
#include "hone/cli/doctor/check.h"
#include "hone/device/device.h"
#include "hone/device/libtorch.h"
#include "hone/device/npu.h"
#include "hone/device/npu/errors.h"
#include "hone/device/npu/install.h"
#include "hone/ops/npu/boxed.h"
#include "hone/parallel/collectives/hccl_backend.h"

namespace hone::cli::doctor {
namespace {

using device::npu::Install;

std::string set_env(const Install& install) {
  return fmt::format("source {}/set_env.sh", install.toolkit.empty() ? "/usr/local/Ascend/ascend-toolkit" : install.toolkit);
}

Finding driver_finding(const Install& install) {
  if (install.driver_version.empty())
    return {Severity::warning, "NPU driver", "no version file",
            "in a container, mount /usr/local/Ascend/driver: hone docker-run prints the full command"};
  auto firmware = install.firmware_version.empty() ? std::string() : ", firmware " + install.firmware_version;
  return {Severity::good, "NPU driver", install.driver_version + firmware, ""};
}

Finding cann_finding(const Install& install) {
  if (install.runtime.empty() && install.toolkit.empty())
    return {Severity::bad, "CANN", "an Ascend device was found, but no toolkit", "install CANN and source its set_env.sh"};
  if (install.runtime.empty() || !install.sourced)
    return {Severity::bad, "CANN", fmt::format("in {}, but its environment is not set", install.toolkit), set_env(install)};
  auto version = install.cann_version.empty() ? "of unknown version" : install.cann_version;
  return {Severity::good, "CANN", fmt::format("{} in {}", version, install.toolkit), ""};
}

Findings torch_npu_findings(const Install& install) {
  auto wanted = fmt::format("pip install torch_npu=={}.{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH);
  if (install.torch_npu.empty()) return {{Severity::bad, "torch_npu", "not installed", wanted}};
  Findings out;
  bool same = device::npu::same_release(TORCH_VERSION, install.torch_npu_version);
  out.push_back({same ? Severity::good : Severity::bad, "torch_npu",
                 same ? fmt::format("{}, Python {}", install.torch_npu_version, install.python)
                      : fmt::format("{}, which does not fit libtorch {}", install.torch_npu_version, TORCH_VERSION),
                 same ? install.torch_npu : wanted});
  if (device::libtorch_made_for_cuda())
    out.push_back({Severity::bad, "torch and torch_npu", "libtorch is a CUDA build, which torch_npu does not support",
                   fmt::format("install torch {}'s build for CPUs (its version ends in +cpu), then make build", TORCH_VERSION)});
  if (!install.cann_version.empty() && !device::npu::cann_serves(install.cann_version, install.torch_npu_version)) {
    auto serving = device::npu::cann_for(install.torch_npu_version);
    out.push_back({Severity::bad, "CANN and torch_npu",
                   fmt::format("CANN {} with torch_npu {}", install.cann_version, install.torch_npu_version),
                   fmt::format("torch_npu {} was built for CANN {}", install.torch_npu_version, fmt::join(serving, ", "))});
  }
  return out;
}

Finding permission_finding(const Install& install) {
  if (install.emulated) return {Severity::good, "NPU device files", "emulated cards need none", ""};
  if (install.cards.empty())
    return {Severity::bad, "NPU device files", "no /dev/davinci*",
            "in a container, pass --device=/dev/davinci0 …: hone docker-run prints the full command"};
  if (!install.absent_nodes.empty())
    return {Severity::bad, "NPU device files", fmt::format("not there: {}", fmt::join(install.absent_nodes, ", ")),
            "give the container these devices: hone docker-run prints the full command"};
  if (!install.inaccessible_nodes.empty())
    return {Severity::bad, "NPU device files", fmt::format("may not be opened: {}", fmt::join(install.inaccessible_nodes, ", ")),
            "add your user to the group HwHiAiUser, or give the container these devices"};
  return {Severity::good, "NPU device files", counted(install.cards.size(), "card"), ""};
}

Findings container_findings(const Install& install) {
  if (!install.in_container || install.emulated || install.cards.empty()) return {};
  if (install.missing_mounts.empty()) return {{Severity::good, "container", "the driver's folders are mounted", ""}};
  std::vector<std::string> mounts;
  for (const auto& path : install.missing_mounts) mounts.push_back(fmt::format("-v {0}:{0}:ro", path));
  return {{Severity::bad, "container", fmt::format("not mounted: {}", fmt::join(install.missing_mounts, ", ")),
           fmt::format("docker run {} …", fmt::join(mounts, " "))}};
}

// What the guides check by importing MindSpeed: whether ranks of a layout can communicate and expert operators exist.
Finding layouts_finding(const std::string& missing_operators) {
  if (!parallel::has_hccl_backend())
    return {Severity::bad, "Megatron layouts", "this torch_npu has no HCCL backend that hone can use",
            "install the torch_npu wheel of your torch"};
  return {Severity::good, "Megatron layouts", "tensor, pipeline, context and expert parallel over HCCL",
          missing_operators.empty() ? "built in: neither MindSpeed nor Megatron-LM is needed"
                                    : "compositions stand in for operators that this torch_npu lacks"};
}

// The three checks from the guides.
Findings computing_findings() {
  try {
    auto npu = device::select_device("npu:0");
    auto sum = (at::ones({2}, at::device(npu)) + 1).sum().to(at::kCPU).item<float>();
    Findings out{{Severity::good, "NPU available",
                  fmt::format("{}, {} visible", device::describe(npu), at::accelerator::deviceCount()), ""}};
    out.push_back(sum == 4 ? Finding{Severity::good, "NPU computation", "1 + 1 = 2", ""}
                           : Finding{Severity::bad, "NPU computation", fmt::format("twice 1 + 1 gave {}", sum),
                                     "look at npu-smi info for the card's health"});
    std::string live, absent;
    for (const auto& op : ops::npu::operator_states())
      (op.live ? live : absent) += (op.live ? live : absent).empty() ? op.name : ", " + op.name;
    out.push_back({Severity::good, "fused operators", live, absent.empty() ? "" : "not in this torch_npu: " + absent});
    out.push_back(layouts_finding(absent));
    return out;
  } catch (const UserError& error) {
    return {{Severity::bad, "NPU available", error.what(), error.hint()}};
  } catch (const c10::Error& error) {
    auto known = device::npu::explain(error.what_without_backtrace());
    return {{Severity::bad, "NPU available", known ? known->cause : error.what_without_backtrace(), known ? known->advice : ""}};
  }
}

}  // namespace

Findings examine_npu() {
  auto install = device::npu::find_installation();
  if (const char* home = std::getenv("ASCEND_HOME_PATH"); home && !fs::is_directory(home))
    return {{Severity::bad, "CANN", fmt::format("ASCEND_HOME_PATH is {}, which is not a folder", home),
             "source the toolkit's set_env.sh"}};
  bool hardware = !install.cards.empty() || install.emulated;
  if (!hardware && install.toolkit.empty()) return {{Severity::absent, "CANN", "not installed", "only needed for Ascend NPUs"}};
  Findings out{permission_finding(install), driver_finding(install), cann_finding(install)};
  for (auto& finding : container_findings(install)) out.push_back(finding);
  for (auto& finding : torch_npu_findings(install)) out.push_back(finding);
  bool sound = std::all_of(out.begin(), out.end(), [](const auto& finding) { return finding.mark != Severity::bad; });
  if (sound && hardware)
    for (auto& finding : computing_findings()) out.push_back(finding);
  return out;
}

}  // namespace hone::cli::doctor
