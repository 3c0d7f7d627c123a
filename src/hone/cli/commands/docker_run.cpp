// Prints a complete `docker run` command for the devices of this machine: device nodes, driver folders, caches and the current
// folder.
#include <ranges>

#include "hone/base/file.h"
#include "hone/base/strings/shell_quoted.h"
#include "hone/cli/commands.h"
#include "hone/device/inventory.h"
#include "hone/device/npu/install.h"

namespace hone::cli {
namespace {

void add_npu(std::vector<std::string>& parts, const device::npu::Install& install) {
  for (const auto& card : install.cards) parts.push_back("--device=" + card);
  for (const char* node : {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"})
    parts.push_back(fmt::format("--device={}", node));
  for (const char* path : {"/usr/local/dcmi", "/usr/local/bin/npu-smi", "/usr/local/Ascend/driver", "/usr/local/Ascend/firmware",
                           "/etc/ascend_install.info"})
    parts.push_back(fmt::format("-v {0}:{0}:ro", path));
}

}  // namespace

int docker_run_command(const Options& options) {
  auto install = device::npu::find_installation();
  std::vector<std::string> parts{"docker run -it --rm --net=host --shm-size=16g"};
  std::string image = "hone";
  if (!install.cards.empty()) {
    auto records = device::inventory();
    bool two_dies = std::ranges::any_of(records, [](const auto& record) { return record.model == "Ascend910"; });
    add_npu(parts, install);
    image = two_dies ? "hone-npu:a3" : "hone-npu:a2";
  } else if (!device::cuda_driver().empty()) {
    parts.emplace_back("--gpus all");
    image = "hone-cuda";
  }
  parts.emplace_back("-v \"$HOME\"/.cache:/root/.cache");
  parts.emplace_back("-v \"$PWD\":/workspace -w /workspace");
  const auto& words = options.positional();
  parts.push_back(words.empty() ? image + " hone doctor"
                                : fmt::format("{} {}", image, fmt::join(words | std::views::transform(shell_quoted), " ")));
  fmt::print("{}\n", fmt::join(parts, " \\\n  "));
  return 0;
}

}  // namespace hone::cli
