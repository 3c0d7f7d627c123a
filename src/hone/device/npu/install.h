// The Ascend software of a machine: torch_npu, CANN, driver and firmware, found by their files without loading any of them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hone::device::npu {

struct Install {
  std::string torch_npu;          // folder of the package, empty when there is none
  std::string torch_npu_version;  // "2.13.0"
  std::string python;             // "3.11": of the package
  std::string runtime;            // path of libascendcl.so, empty when the linker would not find it
  std::string toolkit;            // CANN's folder, by ASCEND_HOME_PATH or the usual places; empty when there is none
  std::string cann_version;       // "9.1.0"
  std::string driver_version, firmware_version;
  std::vector<std::string> cards;               // /dev/davinci0 …
  std::vector<std::string> inaccessible_nodes;  // device nodes this process may not open
  std::vector<std::string> absent_nodes;        // those that go with the cards and are not there
  bool in_container = false;
  std::vector<std::string> missing_mounts;  // places of the driver that the container lacks
  bool emulated = false;                    // under hone emulate-npu
  bool sourced = false;                     // the environment script of CANN has run
};
Install find_installation();

// The file's "Version=…" or "version=…" line.
std::optional<std::string> version_line(const std::string& path);

// "2.7.1.post4" → {2, 7, 1}; false when either is not a version or they differ in major, minor or patch.
bool same_release(const std::string& torch, const std::string& torch_npu);
// CANN releases that a torch_npu release was built for, newest first; empty when the release is not in the table.
std::vector<std::string> cann_for(const std::string& torch_npu);
// Whether this CANN is compatible with that torch_npu: by the table, or a newer release of the same year.
bool cann_serves(const std::string& cann, const std::string& torch_npu);

}  // namespace hone::device::npu
