// The cores this process may use: what the scheduler's mask names, as far as the control group's CPU quota goes, and where they
// are in the machine.
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace hone {

// "0-2,5" → {0, 1, 2, 5}, as kernels and drivers write lists; what follows a mistake is left out.
std::vector<int> parse_core_list(std::string_view text);

std::vector<int> allowed_cores();  // of the calling thread's affinity mask

// Cores' worth of time that control groups leave this process, versions 1 and 2, its own group and those around it; infinity
// without a limit. `root` replaces "/".
double cpu_quota(const std::filesystem::path& root = "/");

// How many threads are worth having: at least one, at most one per allowed core, a quota rounded up. Asked once.
int usable_cores();

// The cores of each NUMA node that are among `allowed`, node by node; one node with all of them where the kernel names none.
std::vector<std::vector<int>> numa_nodes(const std::vector<int>& allowed, const std::filesystem::path& root = "/");

// The cores of one of several processes that share a machine: neighbors in as few nodes as possible, all shares of nearly the
// same size. With more processes than cores some get the same core.
std::vector<int> share_of_cores(const std::vector<std::vector<int>>& nodes, int index, int count);

// Restricts the calling thread, and threads it starts later, to these cores. False where the system refuses.
bool bind_to(const std::vector<int>& cores);

}  // namespace hone
