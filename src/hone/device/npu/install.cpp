#include "hone/device/npu/install.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "hone/device/npu/variables.h"
#include "hone/device/tensor.h"

namespace hone::device::npu {
namespace {

namespace fs = std::filesystem;

// A path of the machine; tests build fake machines in a folder.
fs::path on_machine(const std::string& path) { return fs::path(variable("HONE_MACHINE_ROOT") + path); }

// .../site-packages/torch/lib/libtorch_cpu.so → .../site-packages
fs::path torch_packages() {
  Dl_info info{};
  if (!::dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) || !info.dli_fname) return {};
  return fs::weakly_canonical(info.dli_fname).parent_path().parent_path().parent_path();
}

// HONE_TORCH_NPU, next to the loaded libtorch, in the npu folder of its environment, or on PYTHONPATH.
fs::path find_torch_npu() {
  std::vector<fs::path> places{variable("HONE_TORCH_NPU")};
  auto packages = torch_packages();
  places.push_back(packages);
  places.push_back(packages.parent_path().parent_path().parent_path() / "npu");
  auto path = variable("PYTHONPATH") + ":";
  for (size_t start = 0, end; (end = path.find(':', start)) != path.npos; start = end + 1)
    places.emplace_back(path.substr(start, end - start));
  for (const auto& place : places)
    if (!place.empty() && fs::exists(place / "torch_npu/lib/libtorch_npu.so")) return place / "torch_npu";
  return {};
}

std::string package_version(const fs::path& package) {
  std::ifstream file(package / "version.py");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("__version__"))
      if (auto open = line.find('\''), close = line.rfind('\''); open != line.npos && close > open)
        return line.substr(open + 1, close - open - 1);
  return "";
}

// _C.cpython-311-x86_64-linux-gnu.so → "3.11"
std::string python_of(const fs::path& package) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(package, ignored)) {
    auto name = entry.path().filename().string();
    constexpr std::string_view kStart = "_C.cpython-3";
    if (name.starts_with(kStart)) return "3." + name.substr(kStart.size(), name.find('-', kStart.size()) - kStart.size());
  }
  return "";
}

std::string find_runtime(const std::string& toolkit) {
  std::vector<fs::path> places;
  auto path = variable("LD_LIBRARY_PATH") + ":";
  for (size_t start = 0, end; (end = path.find(':', start)) != path.npos; start = end + 1)
    places.emplace_back(path.substr(start, end - start));
  if (!toolkit.empty()) places.push_back(fs::path(toolkit) / "lib64");
  std::error_code ignored;
  for (const auto& place : places)
    if (!place.empty() && fs::exists(place / "libascendcl.so", ignored)) return place / "libascendcl.so";
  return "";
}

std::string find_toolkit() {
  for (const char* name : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"})
    if (auto value = variable(name); !value.empty() && fs::exists(value)) return value;
  for (const char* place : {"/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann", "/usr/local/Ascend/latest"})
    if (fs::exists(on_machine(place))) return on_machine(place);
  return "";
}

std::string find_cann_version(const fs::path& toolkit) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(toolkit, ignored)) {
    auto name = entry.path().filename().string();
    if (name.starts_with("ascend_") && name.ends_with("_install.info"))
      if (auto version = version_line(entry.path())) return *version;
  }
  for (const auto& entry : fs::recursive_directory_iterator(toolkit / "share/info", ignored))
    if (entry.path().filename() == "version.info")
      if (auto version = version_line(entry.path())) return *version;
  return "";
}

void look_at_nodes(Install& out) {
  auto may = [](const std::string& node, int how) { return ::access(on_machine(node).c_str(), how) == 0; };
  for (int i = 0; i < 64; ++i)
    if (auto node = "/dev/davinci" + std::to_string(i); may(node, F_OK)) out.cards.push_back(node);
  if (out.cards.empty()) return;
  auto nodes = out.cards;
  for (const char* name : {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"}) nodes.emplace_back(name);
  for (const auto& node : nodes) {
    if (!may(node, F_OK))
      out.absent_nodes.push_back(node);
    else if (!may(node, R_OK | W_OK))
      out.inaccessible_nodes.push_back(node);
  }
}

// Paths that the guides mount into a container, since the driver is on the host.
void look_at_mounts(Install& out) {
  std::error_code ignored;
  out.in_container = fs::exists(on_machine("/.dockerenv"), ignored) || fs::exists(on_machine("/run/.containerenv"), ignored);
  if (!out.in_container) return;
  for (const char* path : {"/usr/local/Ascend/driver", "/usr/local/dcmi", "/usr/local/bin/npu-smi", "/etc/ascend_install.info"})
    if (!fs::exists(on_machine(path), ignored)) out.missing_mounts.emplace_back(path);
}

std::array<int, 3> release_of(const std::string& version) {
  std::array<int, 3> out{-1, -1, -1};
  const char *at = version.data(), *end = at + version.size();
  for (auto& part : out) {
    auto [next, status] = std::from_chars(at, end, part);
    if (status != std::errc()) break;
    at = next == end ? end : next + 1;
  }
  return out;
}

struct Pairing {
  const char* cann;
  std::vector<const char*> torch_npu;
};
const std::vector<Pairing>& pairings() {
  static const std::vector<Pairing> kPairings{
      {"9.1.0", {"2.13.0", "2.12.0", "2.11.0", "2.10.0.post4", "2.9.0.post6", "2.7.1.post8"}},
      {"9.0.0", {"2.9.0.post2", "2.8.0.post4", "2.7.1.post4"}},
      {"8.5.0", {"2.9.0", "2.8.0.post2", "2.7.1.post2", "2.6.0.post5"}},
      {"8.3.RC1", {"2.8.0", "2.7.1", "2.6.0.post3", "2.1.0.post17"}},
      {"8.2.RC1", {"2.6.0", "2.5.1.post1", "2.1.0.post13"}},
      {"8.1.RC1", {"2.5.1", "2.4.0.post4", "2.3.1.post6", "2.1.0.post12"}},
      {"8.0.0", {"2.4.0.post2", "2.3.1.post4", "2.1.0.post10"}},
  };
  return kPairings;
}

}  // namespace

std::optional<std::string> version_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("Version=") || line.starts_with("version=")) {
      auto value = line.substr(8);
      while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back()))) value.pop_back();
      return value;
    }
  return std::nullopt;
}

Install find_installation() {
  Install out;
  auto package = find_torch_npu();
  if (!package.empty())
    out.torch_npu = package, out.torch_npu_version = package_version(package), out.python = python_of(package);
  out.toolkit = find_toolkit();
  out.sourced = !variable("ASCEND_HOME_PATH").empty() || !variable("ASCEND_TOOLKIT_HOME").empty();
  out.runtime = find_runtime(out.toolkit);
  out.emulated = !variable("HONE_EMULATED_NPUS").empty();
  if (!out.toolkit.empty()) out.cann_version = find_cann_version(out.toolkit);
  fs::path ascend =
      variable("HONE_ASCEND_ROOT").empty() ? on_machine("/usr/local/Ascend") : fs::path(variable("HONE_ASCEND_ROOT"));
  out.driver_version = version_line(ascend / "driver/version.info").value_or("");
  out.firmware_version = version_line(ascend / "firmware/version.info").value_or("");
  look_at_nodes(out);
  look_at_mounts(out);
  return out;
}

bool same_release(const std::string& torch, const std::string& torch_npu) {
  auto a = release_of(torch), b = release_of(torch_npu);
  return a[2] >= 0 && a == b;
}

std::vector<std::string> cann_for(const std::string& torch_npu) {
  std::vector<std::string> out;
  for (const auto& pairing : pairings())
    for (const auto* release : pairing.torch_npu)
      if (torch_npu == release) out.emplace_back(pairing.cann);
  return out;
}

bool cann_serves(const std::string& cann, const std::string& torch_npu) {
  auto known = cann_for(torch_npu);
  if (known.empty()) return true;  // newer than this table: no known incompatibility
  auto pair = [](const std::string& version) { return std::array{release_of(version)[0], release_of(version)[1]}; };
  return std::any_of(known.begin(), known.end(), [&](const std::string& wanted) { return pair(wanted) == pair(cann); });
}

}  // namespace hone::device::npu
